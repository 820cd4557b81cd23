"""The subcommand `export`: checkpoint ─► SavedModel."""

import itertools
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_checkpoint, add_overwrite, add_precision, natural


def add_command(add: Callable) -> None:
    """`elmo-tf export`."""
    parser = add(
        "export",
        _export,
        "write a checked SavedModel for TF Serving",
        "elmo-tf export small-en exported",
    )
    add_checkpoint(parser)
    parser.add_argument("directory", metavar="DIR", help="gets a folder named by the version")
    parser.add_argument("--version", type=natural, default=1, metavar="N", help="(1)")
    add_precision(parser)
    parser.add_argument(
        "--free-characters",
        action="store_true",
        help="let the signature char_ids take fewer ids a token than the model keeps",
    )
    parser.add_argument(
        "--raw-text",
        action="store_true",
        help="add the signature text, which splits off punctuation; servers need tensorflow-text",
    )
    parser.add_argument(
        "--warmup",
        metavar="TEXT",
        help="a file whose first sentences TF Serving embeds when it loads the model, so that the "
        "first users need not wait",
    )
    add_overwrite(parser)


def _export(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_bilm, load_vocabulary
    from elmo_tf.saved_models.exporting.export import export
    from elmo_tf.saved_models.exporting.tokenizers import PunctuationSplitter
    from elmo_tf.saved_models.folders import check_new_version

    check_new_version(arguments.directory, arguments.version, arguments.overwrite)
    path = export(
        load_bilm(arguments.checkpoint),
        arguments.directory,
        arguments.version,
        arguments.overwrite,
        arguments.precision,
        arguments.free_characters,
        PunctuationSplitter() if arguments.raw_text else None,
        load_vocabulary(arguments.checkpoint),
        _sentences(arguments.warmup) if arguments.warmup else (),
    )
    print(path)


def _sentences(path: str) -> list[str]:
    from elmo_tf.saved_models.exporting.warmup import MOST_SENTENCES
    from elmo_tf.text.vocabulary import read_lines

    lines = (line.strip() for line in read_lines(path))
    sentences = list(itertools.islice(filter(None, lines), MOST_SENTENCES))
    if not sentences:
        raise ValueError(f"{path} holds no sentence to warm up with.")
    return sentences
