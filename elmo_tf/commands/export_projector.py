"""The subcommand `export-projector`: sentences in a file ─► TensorBoard's embedding projector."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_input_columns,
    add_layers,
    add_model,
    add_overwrite,
    add_precision,
    at_least_1,
    print_json,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf export-projector`."""
    parser = add(
        "export-projector",
        _export_projector,
        "write token vectors for TensorBoard's embedding projector",
        "elmo-tf export-projector small-en text.txt projector",
    )
    parser.epilog = (
        "To view the vectors: tensorboard --logdir LOGDIR, then PROJECTOR in the menu INACTIVE."
    )
    add_model(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="one tokenized sentence per line, or CoNLL columns (.conll, .conllu, …); .gz is "
        "decompressed",
    )
    parser.add_argument("logdir", metavar="LOGDIR", help="output directory")
    add_layers(parser)
    parser.add_argument(
        "--max-tokens",
        **at_least_1(10_000),
        help="tokens to export; the projector is slow with more",
    )
    parser.add_argument("--words", nargs="+", metavar="WORD", help="export only these tokens")
    add_precision(parser)
    group = parser.add_argument_group("input")
    add_input_columns(group)
    group.add_argument(
        "--tag-column",
        **at_least_1(),
        help="column of tags to show with each token, from 1 (CoNLL files)",
    )
    add_overwrite(parser)


def _export_projector(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.projector import check_projector, export_projector, read_occurrences

    # Checked before the model is loaded, which takes longer.
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
