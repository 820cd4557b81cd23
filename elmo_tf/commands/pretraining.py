"""The subcommands `vocab` and `train`: text ─► vocabulary file ─► checkpoint."""

import os
from typing import Annotated, Literal

from absl import logging
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from elmo_tf.commands.options import Overwrite, TextFiles, print_json, text_sources
from elmo_tf.trainers.config import PretrainConfig


def vocab(
    files: TextFiles,
    /,
    *,
    output: str,
    max_size: PositiveInt | None = None,
    min_count: PositiveInt = 1,
    input_format: Literal["text", "fasta"] | None = None,
    tokenizer: str | None = None,
    overwrite: Overwrite = False,
) -> None:
    """Count tokens and write a vocabulary file.

    Args:
        output: vocabulary, one token per line.
        max_size: tokens to keep, with `<S> </S> <UNK>`; all by default.
        min_count: leave out rarer tokens.
        input_format: format of the text; fasta: protein sequences; by default chosen by the file
            name.
        tokenizer: name of the tokenizer of the text, which is recorded beside the output for train;
            by default what elmo-tf tokenize recorded.
    """
    from elmo_tf.files import refuse_file
    from elmo_tf.text.counting import count_text
    from elmo_tf.text.tokenizers import record_tokenizer, recorded_tokenizer
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_file(output, overwrite)
    sources = text_sources(files, input_format)
    text = count_text(sources, input_format)
    text.report()
    vocabulary = Vocabulary.of_counts(text.types, min_count, max_size)
    vocabulary.save(output)
    paths = (source for source in sources if isinstance(source, str | os.PathLike))
    record_tokenizer(output, tokenizer or recorded_tokenizer(paths))
    logging.info("%s holds %d tokens.", output, len(vocabulary))


def train(*, config: Annotated[PretrainConfig, Parameter(name="*")]) -> None:
    """Pretrain a biLM on text."""
    from elmo_tf.trainers.pretraining import pretrain

    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": config.workdir, "step": record["step"], "perplexity": last})
