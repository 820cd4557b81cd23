"""The subcommand `export-projector`: sentences in a file ─► TensorBoard's embedding projector."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_input_columns,
    add_model,
    add_overwrite,
    add_precision,
    positive,
    print_json,
)


def add_command(add: Callable) -> None:
    """`elmo-tf export-projector`."""
    parser = add(
        "export-projector",
        _export_projector,
        "write tokens' vectors for the projector of TensorBoard, which draws them in space",
        "elmo-tf export-projector small-en text.txt projector",
    )
    parser.epilog = "Then: tensorboard --logdir LOGDIR, and there PROJECTOR (among the inactive)."
    add_model(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="one tokenised sentence a line, or CoNLL columns (.conll, .conllu, …); .gz too",
    )
    parser.add_argument("logdir", metavar="LOGDIR", help="folder that appears when it is complete")
    parser.add_argument(
        "--layers",
        choices=("all", "top", "average", "mix"),
        default="all",
        help="all: a tensor for each layer (all)",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=10_000,
        metavar="N",
        help="the first so many; the projector is slow with more (10000)",
    )
    parser.add_argument(
        "--words", nargs="+", metavar="WORD", help="only tokens that are one of these"
    )
    add_precision(parser)
    group = parser.add_argument_group("the input")
    add_input_columns(group)
    group.add_argument(
        "--tag-column",
        type=positive,
        metavar="N",
        help="of CoNLL columns, from 1: adds its tags to what is shown of a token",
    )
    add_overwrite(parser)


def _export_projector(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.projector import check_projector, export_projector, read_occurrences

    # Before the model is read, which takes longer.
    check_projector(arguments.logdir, arguments.overwrite)
    occurrences = read_occurrences(
        arguments.file,
        arguments.max_tokens,
        arguments.words,
        arguments.input_format,
        arguments.token_column,
        arguments.tag_column,
    )
    embedder = Embedder(arguments.model, arguments.layers, arguments.precision)
    print_json(export_projector(embedder, occurrences, arguments.logdir, arguments.overwrite))
