"""The subcommand `tokenize`: raw text ─► one tokenized sentence per line."""

from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_files, add_overwrite, text_sources


def add_command(add: Callable) -> None:
    """Adds `elmo-tf tokenize`."""
    parser = add(
        "tokenize",
        _tokenize,
        "split raw text into sentences and tokens, as vocab and train read them",
        "elmo-tf tokenize raw.txt --language de --output german.txt",
    )
    add_files(parser, "raw text")
    parser.add_argument(
        "--language",
        required=True,
        metavar="LANG",
        help="language of spaCy's tokenizer (en, de, …, or xx for any)",
    )
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="text, one tokenized sentence per line"
    )
    add_overwrite(parser)


def _tokenize(arguments: Any) -> None:
    from elmo_tf.files import atomic_file, refuse_file
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import reported_lines
    from elmo_tf.text.sentences import encode
    from elmo_tf.text.tokenizers import SpacyTokenizer

    refuse_file(arguments.output, arguments.overwrite)
    tokenizer = SpacyTokenizer(arguments.language)
    lines = reported_lines(text_sources(arguments.files))
    num_sentences = num_tokens = 0
    with atomic_file(arguments.output, arguments.overwrite) as part, open(part, "wb") as file:
        for line in progress_over(lines, None, "tokenizing", "lines"):
            for sentence in tokenizer(line):
                file.write(encode(" ".join(token.text for token in sentence)) + b"\n")
                num_sentences += 1
                num_tokens += len(sentence)
    logging.info("%s holds %d sentences of %d tokens.", arguments.output, num_sentences, num_tokens)
