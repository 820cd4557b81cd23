"""Nearest neighbors by vectors of a file, over the text of an occurrence index."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.evaluation.layer_vectors import unit_vectors
from elmo_tf.evaluation.neighbors import Neighbor
from elmo_tf.evaluation.occurrence_index.searching import Occurrence, OccurrenceIndex
from elmo_tf.evaluation.stored_vectors import VectorSource
from elmo_tf.progress import progress_over


class _Query(NamedTuple):
    """An occurrence, its unit vectors, and the best sentences so far."""

    occurrence: Occurrence
    vectors: np.ndarray  # float32 (layer, feature)
    best: list[list[tuple[float, int, int]]]  # a heap per layer: similarity, sentence, position


def nearest_by_vectors(
    index: OccurrenceIndex,
    source: VectorSource,
    occurrences: Sequence[Occurrence],
    top_n: int = 5,
    words: str = "any",
) -> list[dict[int, list[Neighbor]]]:
    """Finds the nearest tokens in other sentences, by the vectors of another model.

    Compares with every token of the text, so it reads the whole file once.

    Args:
        index: the text.
        source: the vectors of the sentences of the text and of the queries.
        occurrences, top_n, words: see `OccurrenceIndex.nearest`.

    Returns:
        See `OccurrenceIndex.nearest`, with all layers of the file, from 0.

    Raises:
        ValueError: a sentence has no vectors.
    """
    layers = range(source.num_layers)
    arrays = source.embed([occurrence.tokens for occurrence in occurrences])
    queries = [
        _Query(one, unit_vectors(array[:, one.position]), [[] for _ in layers])
        for one, array in zip(occurrences, arrays, strict=True)
    ]
    numbers = progress_over(
        range(index.num_sentences), index.num_sentences, "comparing", "sentences"
    )
    for number in numbers:
        tokens = index.tokens(number)
        (array,) = source.embed([tokens])
        vectors = unit_vectors(array)  # (layer, token, feature)
        for query in queries:
            if tokens != query.occurrence.tokens:
                _compare(query, number, tokens, vectors, top_n, words)
    return [
        {
            layer: [Neighbor(*place, similarity) for similarity, *place in sorted(heap)[::-1]]
            for layer, heap in enumerate(query.best)
        }
        for query in queries
    ]


def _compare(
    query: _Query, number: int, tokens: list[str], vectors: np.ndarray, top_n: int, words: str
) -> None:
    """Adds the best token of a sentence to the best of a query, for each layer."""
    similarities = np.einsum("ltf,lf->lt", vectors, query.vectors)
    if words != "any":
        word = query.occurrence.tokens[query.occurrence.position]
        is_same = np.array([token == word for token in tokens])
        is_allowed = is_same if words == "same" else ~is_same
        if not is_allowed.any():
            return
        similarities[:, ~is_allowed] = -np.inf
    for heap, row in zip(query.best, similarities, strict=True):
        position = int(row.argmax())
        found = float(row[position]), number, position
        if len(heap) < top_n:
            heapq.heappush(heap, found)
        else:
            heapq.heappushpop(heap, found)
