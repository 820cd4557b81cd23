"""Candidates by their stored vectors ─► the nearest of them by exact vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.neighbours import Neighbour
from elmo_tf.evaluation.occurrence_index.corpus_store import StoredCorpus
from elmo_tf.evaluation.occurrence_index.layer_index import LayerSearch, unit_vectors

# Candidates for each neighbour that is asked for, and for all of them at least.
_CANDIDATES, _LEAST_CANDIDATES = 4, 20


class Query(NamedTuple):
    """What neighbours are looked for.

    tokens: of the sentence, which is left out.
    layer: whose vectors are compared.
    vector: float32 (feature,), of length 1.
    only, without: see `LayerSearch.nearest`.
    """

    tokens: list[str]
    layer: int
    vector: np.ndarray
    only: np.ndarray | None
    without: np.ndarray | None


class Search:
    """Answers queries. What is read for one is kept for the others.

    Args:
        corpus: the text.
        layers: the stored vectors by their layer.
        embedder: gives the exact ones.
    """

    def __init__(self, corpus: StoredCorpus, layers: Mapping[int, LayerSearch], embedder: Embedder):
        self._corpus = corpus
        self._layers = layers
        self._embedder = embedder
        self._read: dict[int, np.ndarray] = {}  # (layer, token, feature) of a sentence

    def nearest(self, queries: Sequence[Query], top_n: int) -> list[list[Neighbour]]:
        """The nearest tokens of each query, one of a sentence, the nearest first."""
        count = max(_LEAST_CANDIDATES, _CANDIDATES * top_n)
        # All sentences at once, which the biLM reads faster than one after the other.
        self._read_sentences(
            place[0] for query in queries for place in self._candidates(query, count)
        )
        return [self._nearest(query, top_n, count) for query in queries]

    def _nearest(self, query: Query, top_n: int, count: int) -> list[Neighbour]:
        while True:
            places = self._candidates(query, count)
            self._read_sentences(sentence for sentence, _ in places)
            found = self._ranked(query, places)
            if len(found) >= top_n or len(places) < count:
                return found[:top_n]
            count *= 4  # a few sentences hold most of the candidates

    def _candidates(self, query: Query, count: int) -> list[tuple[int, int]]:
        """Sentences and positions, no more than `count` of them."""
        if query.only is not None and len(query.only) < count:
            return self._corpus.places(query.only)
        search = self._layers[query.layer]
        numbers = search.nearest(query.vector, count, query.only, query.without)
        return self._corpus.places(numbers)

    def _ranked(self, query: Query, places: Iterable[tuple[int, int]]) -> list[Neighbour]:
        best: dict[int, Neighbour] = {}
        for sentence, position in places:
            vector = unit_vectors(self._read[sentence][query.layer, position])
            found = Neighbour(sentence, position, float(vector @ query.vector))
            if sentence not in best or found.similarity > best[sentence].similarity:
                best[sentence] = found
        return sorted(
            (
                found
                for found in best.values()
                if self._corpus.tokens(found.sentence) != query.tokens
            ),
            key=lambda found: -found.similarity,
        )

    def _read_sentences(self, sentences: Iterable[int]) -> None:
        missing = sorted(set(sentences) - self._read.keys())
        arrays = self._embedder.embed([self._corpus.tokens(sentence) for sentence in missing])
        self._read.update(zip(missing, arrays, strict=True))
