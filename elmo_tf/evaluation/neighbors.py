"""Nearest neighbors among the occurrences of one word, layer by layer."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.layer_vectors import unit_vectors


class Neighbor(NamedTuple):
    """A token's sentence and position, and its cosine similarity to the query."""

    sentence: int
    position: int
    similarity: float


class Occurrences:
    """All occurrences of a word in a text, with their vectors in every layer.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        sentences: lists of tokens.
        word: the token.

    Raises:
        ValueError: the word does not occur, or `embedder` does not return all layers.

    Source: Peters et al. 2018, table 4.
    """

    def __init__(self, embedder: Embedder, sentences: Iterable[Sequence[str]], word: str):
        check_all_layers(embedder)
        self.sentences = [list(sentence) for sentence in sentences if word in sentence]
        if not self.sentences:
            raise ValueError(f"The word {word!r} does not occur in the text.")
        self.places = [
            (number, position)
            for number, sentence in enumerate(self.sentences)
            for position, token in enumerate(sentence)
            if token == word
        ]
        arrays = list(embedder.embed(self.sentences))
        # (layer, occurrence, feature)
        self._vectors = unit_vectors(
            np.stack([arrays[number][:, position] for number, position in self.places], axis=1)
        )

    def least_alike(self, layer: int) -> tuple[int, int]:
        """Returns the two occurrences with the lowest cosine similarity in `layer`."""
        vectors = self._vectors[layer]
        rows = [vectors @ vector for vector in vectors]
        first = min(range(len(rows)), key=lambda row: rows[row].min())
        return first, int(rows[first].argmin())

    def nearest(self, occurrence: int, layer: int, top_n: int = 5) -> list[Neighbor]:
        """Returns the nearest occurrences in other sentences, by cosine similarity in `layer`."""
        vectors = self._vectors[layer]
        similarities = vectors @ vectors[occurrence]  # (occurrence,)
        here = self.places[occurrence][0]
        order = [i for i in np.argsort(-similarities, kind="stable") if self.places[i][0] != here]
        return [Neighbor(*self.places[i], float(similarities[i])) for i in order[:top_n]]
