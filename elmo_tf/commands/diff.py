"""The subcommand `diff`: vectors of an old pipeline, compared with those of a model."""

from typing import Any

from elmo_tf.commands.options import (
    InputFormat,
    Layers,
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
        help="vectors, as written by elmo-tf embed (.hdf5, .parquet), or HDF5 with one dataset per "
        "sentence, as of AllenNLP and ELMoForManyLangs",
    )
    model: Model
    text: str = setting(is_positional=True, metavar="TEXT", help="the text, as for elmo-tf embed")
    layers: Layers = "all"
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
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.differences import compare_vectors
    from elmo_tf.evaluation.stored_vectors import StoredVectors
    from elmo_tf.text.sentence_files import sentence_reader

    old = StoredVectors(options.old)
    sentences = list(sentence_reader(options.text, options.input_format, options.token_column)())
    embedder = Embedder(options.model, options.layers)
    result = compare_vectors(old, embedder, sentences, options.tolerance)
    options.report(result, lambda: _markdown(result))
    return None if result["equal"] else DIFFERENT


def _markdown(result: Any) -> str:
    keys = ("largest", "cosine")
    rows = []
    for layer in result["layers"]:
        numbers = map(layer.get, keys)
        rows.append([f"layer {layer['layer']}", *(x if x is None else f"{x:.3g}" for x in numbers)])
    parts = [markdown_table(["difference", *keys], rows)]
    if result["equal"]:
        parts.append(f"The vectors of all {result['sentences']:,} sentences are equal.")
    if first := result["first_different"]:
        parts.append(f"{result['different']:,} of {result['sentences']:,} sentences differ.")
        parts.append(f"The first is sentence {first['sentence']}, {first['text']!r}.")
        parts.append(f"Difference: {first['difference']}.")
    if result["more_in_file"]:
        parts.append(f"The file has {result['more_in_file']:,} sentences that the text lacks.")
    return "\n\n".join(parts)
