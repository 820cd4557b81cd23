"""The subcommand `vocab`: text ─► vocabulary file."""

from absl import logging

from elmo_tf.commands.options import Overwrite, TextFiles, TokensFormat, subcommand, text_sources
from elmo_tf.settings import Count, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _VocabOptions:
    files: TextFiles
    output: str = setting(help="vocabulary, one token per line")
    max_size: Count | None = setting(
        None, "tokens to keep, with <S> </S> <UNK>", default_help="all", ge=3
    )
    min_count: Count = setting(1, "leave out tokens rarer than N")
    input_format: TokensFormat = None
    overwrite: Overwrite = False


@subcommand(
    "python3 -m pydoc FORMATTING > text.txt && elmo-tf vocab text.txt --output vocab.txt "
    "--min-count 2"
)
def vocab(options: _VocabOptions) -> None:
    """Count tokens and write a vocabulary file."""
    from elmo_tf.files import refuse_file
    from elmo_tf.text.counting import count_text
    from elmo_tf.text.sentence_files import data_warnings
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_file(options.output, options.overwrite)
    sources = text_sources(options.files, options.input_format)
    text = count_text(sources, options.input_format)
    if warnings := data_warnings(text.lines):
        logging.warning("%s", warnings)
    vocabulary = Vocabulary.of_counts(text.types, options.min_count, options.max_size)
    vocabulary.save(options.output)
    logging.info("%s holds %d tokens.", options.output, len(vocabulary))
