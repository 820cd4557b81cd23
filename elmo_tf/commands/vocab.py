"""The subcommand `vocab`: text ─► vocabulary."""

from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_files, add_overwrite, positive, text_sources


def add_command(add: Callable) -> None:
    """`elmo-tf vocab`."""
    parser = add(
        "vocab",
        _vocab,
        "count tokens and write the commonest, one a line",
        "python3 -m pydoc FORMATTING > text.txt && elmo-tf vocab text.txt --output vocab.txt "
        "--min-count 2",
    )
    add_files(parser)
    parser.add_argument("--output", required=True, metavar="FILE", help="the vocabulary")
    parser.add_argument(
        "--max-size",
        type=positive,
        metavar="N",
        help="tokens kept at most, <S> </S> <UNK> included",
    )
    parser.add_argument(
        "--min-count", type=positive, default=1, metavar="N", help="rarer tokens are left out (1)"
    )
    add_overwrite(parser)


def _vocab(arguments: Any) -> None:
    from elmo_tf.files import refuse_existing
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_existing(arguments.output, arguments.overwrite)
    sentences = read_sentences(text_sources(arguments.files))
    lines = (" ".join(tokens) for tokens in sentences)
    vocabulary = Vocabulary.build(
        progress_over(lines, None, "counting", "sentences"),
        min_count=arguments.min_count,
        max_size=arguments.max_size,
    )
    vocabulary.save(arguments.output)
    logging.info("%s holds %d tokens.", arguments.output, len(vocabulary))
