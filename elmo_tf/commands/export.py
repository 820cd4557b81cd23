"""The subcommand `export`: checkpoint ─► SavedModel."""

import itertools
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_flag,
    add_model,
    add_overwrite,
    add_precision,
    add_version,
    at_least_0,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf export`."""
    parser = add(
        "export",
        _export,
        "export a checkpoint as a SavedModel for TF Serving",
        "elmo-tf export small-en exported",
    )
    add_model(parser, "checkpoint")
    add_version(parser)
    add_precision(parser)
    add_flag(
        parser,
        "--free-characters",
        "let the char_ids signature accept fewer ids per token than the model's maximum",
    )
    add_flag(
        parser,
        "--raw-text",
        "add the signature `text`, which splits off punctuation; the server must have the "
        "operations of tensorflow-text",
    )
    parser.add_argument(
        "--warmup",
        metavar="TEXT",
        help="text file; TF Serving embeds its first sentences when it loads the model, so that "
        "the first requests are fast",
    )
    parser.add_argument(
        "--cache-tokens",
        **at_least_0(0),
        help="number of distinct tokens whose vectors are cached between requests; 0 for no cache",
    )
    add_overwrite(parser)


def _export(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_bilm, load_vocabulary
    from elmo_tf.saved_models.exporting.export import export
    from elmo_tf.saved_models.exporting.tokenizers import PunctuationSplitter
    from elmo_tf.saved_models.versions import check_new_version

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
        cache_tokens=arguments.cache_tokens,
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
