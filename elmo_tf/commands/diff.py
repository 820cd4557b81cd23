"""The subcommand `diff`: vectors of an old pipeline, compared with those of a model."""

from typing import Any

from elmo_tf.commands.options import (
    InputFormat,
    Model,
    ReportOptions,
    TokenColumn,
    markdown_table,
    subcommand,
)
from elmo_tf.settings import Positive, checked_dataclass, setting

DIFFERENT = 3  # exit status


@checked_dataclass(kw_only=True)
class _DiffOptions(ReportOptions):
    old: str = setting(
        is_positional=True,
        metavar="OLD",
        help="vectors, as written by elmo-tf embed (.hdf5, .npz, .npy, .parquet), or HDF5 with one "
        "dataset per sentence, as of AllenNLP and ELMoForManyLangs",
    )
    model: Model
    text: str = setting(is_positional=True, metavar="TEXT", help="the text, as for elmo-tf embed")
    tolerance: Positive = setting(1e-5, "largest difference of equal vectors")
    input_format: InputFormat = None
    token_column: TokenColumn = None


@subcommand(
    "elmo-tf embed small-en text.txt old.hdf5 && elmo-tf diff old.hdf5 small-en text.txt",
    epilog="Exit status: 0 if all vectors are equal within the tolerance, 3 if not.",
)
def diff(options: _DiffOptions) -> int | None:
    """Compare a file of vectors with what a model computes."""
    options.check_report()
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.evaluation.differences import compare_vectors
    from elmo_tf.evaluation.stored_vectors import OldVectors
    from elmo_tf.processors import share_cores_for_embedding
    from elmo_tf.text.sentence_files import sentence_reader

    share_cores_for_embedding()
    old = OldVectors(options.old)
    read = sentence_reader(options.text, options.input_format, options.token_column)
    text = list(read())
    sentences, identifiers = [one.tokens for one in text], [one.identifier for one in text]
    bilm = load_bilm(options.model)
    result = compare_vectors(old, bilm, sentences, options.tolerance, identifiers)
    options.report(result, lambda: _markdown(result))
    return None if result["equal"] else DIFFERENT


def _markdown(result: Any) -> str:
    keys = ("largest", "mean", "cosine")
    rows = []
    for layer in result["layers"]:
        numbers = map(layer.get, keys)
        rows.append([layer["layer"], *(x if x is None else f"{x:.3g}" for x in numbers)])
    table = markdown_table(["difference", *keys], rows)
    if result["equal"]:
        return f"{table}\n\nThe vectors of all {result['sentences']:,} sentences are equal."
    first = ", ".join(map(str, result["first_different"]))
    listed = f" (the first: {first})" if first else ""
    causes = "".join(f"\n- {cause}" for cause in result["causes"])
    return (
        f"{table}\n\n{result['different']:,} of {result['sentences']:,} sentences differ{listed}.\n"
        f"Likely causes:\n{causes}"
    )
