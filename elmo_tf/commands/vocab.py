"""The subcommand `vocab`: text ─► vocabulary file."""

from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_files, add_overwrite, at_least_1, text_sources


def add_command(add: Callable) -> None:
    """Adds `elmo-tf vocab`."""
    parser = add(
        "vocab",
        _vocab,
        "count tokens and write a vocabulary file",
        "python3 -m pydoc FORMATTING > text.txt && elmo-tf vocab text.txt --output vocab.txt "
        "--min-count 2",
    )
    add_files(parser)
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="vocabulary, one token per line"
    )
    parser.add_argument(
        "--max-size", **at_least_1(), help="tokens to keep, with <S> </S> <UNK> (default: all)"
    )
    parser.add_argument("--min-count", **at_least_1(1), help="leave out tokens rarer than N")
    add_overwrite(parser)


def _vocab(arguments: Any) -> None:
    from elmo_tf.files import refuse_file
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import reported_lines
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_file(arguments.output, arguments.overwrite)
    lines = reported_lines(text_sources(arguments.files))
    vocabulary = Vocabulary.build(
        progress_over(lines, None, "counting", "lines"),
        min_count=arguments.min_count,
        max_size=arguments.max_size,
    )
    vocabulary.save(arguments.output)
    logging.info("%s holds %d tokens.", arguments.output, len(vocabulary))
