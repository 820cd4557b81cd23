"""The subcommand `diff`: vectors of an old pipeline, compared with those of a model."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_input_columns, add_model, positive_float
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    report,
)

DIFFERENT = 3  # exit status


def add_command(add: Callable) -> None:
    """Adds `elmo-tf diff`."""
    parser = add(
        "diff",
        _diff,
        "compare a file of vectors with what a model computes",
        "elmo-tf embed small-en text.txt old.hdf5 && elmo-tf diff old.hdf5 small-en text.txt",
    )
    parser.epilog = "Exit status: 0 if all vectors are equal within the tolerance, 3 if not."
    parser.add_argument(
        "old",
        metavar="OLD",
        help="vectors, as written by elmo-tf embed (.hdf5, .npz, .npy, .parquet), or HDF5 with one "
        "dataset per sentence, as of AllenNLP and ELMoForManyLangs",
    )
    add_model(parser)
    parser.add_argument("text", metavar="TEXT", help="the text, one tokenized sentence per line")
    parser.add_argument(
        "--tolerance",
        type=positive_float,
        default=1e-5,
        metavar="X",
        help="largest difference of equal vectors",
    )
    add_input_columns(parser.add_argument_group("text"))
    add_report_options(parser)


def _diff(arguments: Any) -> int | None:
    check_report_options(arguments)
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.evaluation.differences import compare_vectors
    from elmo_tf.evaluation.old_vectors import OldVectors
    from elmo_tf.text.sentence_files import sentence_reader
    from elmo_tf.threads import share_cores_for_embedding

    share_cores_for_embedding()
    old = OldVectors(arguments.old)
    read = sentence_reader(arguments.text, arguments.input_format, arguments.token_column)
    sentences = [sentence.tokens for sentence in read()]
    found = compare_vectors(old, load_bilm(arguments.model), sentences, arguments.tolerance)
    report(arguments, found, lambda: _markdown(found))
    return None if found["equal"] else DIFFERENT


def _markdown(found: Any) -> str:
    rows = [
        [layer["layer"], *(_number(layer[key]) for key in ("largest", "mean", "cosine"))]
        for layer in found["layers"]
    ]
    table = markdown_table(["difference", "largest", "mean", "cosine"], rows)
    if found["equal"]:
        return f"{table}\n\nThe vectors of all {found['sentences']:,} sentences are equal."
    first = ", ".join(map(str, found["first_different"]))
    listed = f" (the first: {first})" if first else ""
    causes = "".join(f"\n- {cause}" for cause in found["causes"])
    return (
        f"{table}\n\n{found['different']:,} of {found['sentences']:,} sentences differ{listed}.\n"
        f"Likely causes:\n{causes}"
    )


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
