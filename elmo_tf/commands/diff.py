"""The subcommand `diff`: vectors of an old pipeline, compared with those of a model."""

from typing import Any

from cyclopts.types import PositiveFloat

from elmo_tf.commands.options import (
    InputFormat,
    Layers,
    Model,
    ResultFormat,
    TokenColumn,
    markdown_table,
    print_results,
)

DIFFERENT = 3  # exit status


def diff(
    old: str,
    model: Model,
    text: str,
    /,
    *,
    layers: Layers = "all",
    tolerance: PositiveFloat = 1e-5,
    input_format: InputFormat = None,
    token_column: TokenColumn = None,
    format: ResultFormat = None,
) -> int | None:
    """Compare a file of vectors with what a model computes.

    Exit status: 0 if all vectors are equal within the tolerance, 3 if not.

    Args:
        old: vectors, as written by elmo-tf embed (.hdf5, .parquet), or HDF5 with one dataset per
            sentence, as of AllenNLP and ELMoForManyLangs.
        text: the text, as for elmo-tf embed.
        tolerance: largest difference of equal vectors.
    """
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.evaluation.stored_vectors import compare_vectors, open_stored
    from elmo_tf.text.sentence_files import sentence_reader

    vectors = open_stored(old)
    sentences = list(sentence_reader(text, input_format, token_column)())
    embedder = Embedder(model, layers)
    result = compare_vectors(vectors, embedder, sentences, tolerance)
    print_results(result, lambda: _markdown(result), format)
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
