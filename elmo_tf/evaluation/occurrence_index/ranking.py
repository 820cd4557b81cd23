"""Ranks candidates from the stored vectors by exact cosine similarity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.layer_vectors import unit_vectors
from elmo_tf.evaluation.neighbors import Neighbor
from elmo_tf.evaluation.occurrence_index.corpus_store import StoredCorpus
from elmo_tf.evaluation.occurrence_index.layer_index import LayerSearch

_CANDIDATES_PER_NEIGHBOR = 4
_MIN_CANDIDATES = 20


class Query(NamedTuple):
    """A search for the neighbors of one vector; `only` and `without` as in `LayerSearch`."""

    tokens: list[str]  # the query's sentence, which is excluded from the results
    layer: int
    vector: np.ndarray  # float32 (feature,), a unit vector
    only: np.ndarray | None
    without: np.ndarray | None


class Search:
    """Answers queries; the sentence of each candidate is embedded once."""

    def __init__(self, corpus: StoredCorpus, layers: Mapping[int, LayerSearch], embedder: Embedder):
        self._corpus = corpus
        self._layers = layers
        self._embedder = embedder
        self._embedded: dict[int, np.ndarray] = {}  # by sentence: (layer, token, feature)

    def nearest(self, queries: Sequence[Query], top_n: int) -> list[list[Neighbor]]:
        """Returns the nearest tokens of each query, at most one per sentence, best first."""
        count = max(_MIN_CANDIDATES, _CANDIDATES_PER_NEIGHBOR * top_n)
        # One call embeds the sentences of all queries faster than one call per query.
        self._embed(place[0] for query in queries for place in self._candidates(query, count))
        return [self._nearest(query, top_n, count) for query in queries]

    def _nearest(self, query: Query, top_n: int, count: int) -> list[Neighbor]:
        while True:
            places = self._candidates(query, count)
            self._embed(sentence for sentence, _ in places)
            found = self._ranked(query, places)
            if len(found) >= top_n or len(places) < count:
                return found[:top_n]
            count *= 4  # a few sentences hold most of the candidates

    def _candidates(self, query: Query, count: int) -> list[tuple[int, int]]:
        """Returns sentences and positions of at most `count` tokens."""
        if query.only is not None and len(query.only) < count:
            return self._corpus.places(query.only)
        search = self._layers[query.layer]
        numbers = search.nearest(query.vector, count, query.only, query.without)
        return self._corpus.places(numbers)

    def _ranked(self, query: Query, places: Iterable[tuple[int, int]]) -> list[Neighbor]:
        best: dict[int, Neighbor] = {}
        for sentence, position in places:
            vector = unit_vectors(self._embedded[sentence][query.layer, position])
            found = Neighbor(sentence, position, float(vector @ query.vector))
            if sentence not in best or found.similarity > best[sentence].similarity:
                best[sentence] = found
        others = [one for one in best.values() if self._corpus.tokens(one.sentence) != query.tokens]
        return sorted(others, key=lambda found: -found.similarity)

    def _embed(self, sentences: Iterable[int]) -> None:
        missing = sorted(set(sentences) - self._embedded.keys())
        arrays = self._embedder.embed([self._corpus.tokens(sentence) for sentence in missing])
        self._embedded.update(zip(missing, arrays, strict=True))
