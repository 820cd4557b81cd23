"""Searches an occurrence index for the nearest neighbors of tokens in context."""

import difflib
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.distillation import token_vectors
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.layer_vectors import unit_vectors
from elmo_tf.evaluation.neighbors import Neighbor
from elmo_tf.evaluation.occurrence_index.building import TYPE_VECTORS
from elmo_tf.evaluation.occurrence_index.corpus_store import Source, StoredCorpus
from elmo_tf.evaluation.occurrence_index.description import read_description
from elmo_tf.evaluation.occurrence_index.layer_index import LayerSearch, Part, cluster_medoids
from elmo_tf.evaluation.occurrence_index.ranking import Query, Search
from elmo_tf.extras import require_extra
from elmo_tf.tasks.data.word_vectors import WordVectors

WORDS = ("any", "same", "other")

# Maximum number of occurrences that `unlike_occurrences` clusters.
_MAX_CLUSTERED = 100


class Occurrence(NamedTuple):
    """A token in its sentence.

    Attributes:
        tokens: of the sentence.
        position: of the token.
        source: file and line of the sentence; None if it is not from the index.
    """

    tokens: list[str]
    position: int
    source: Source | None = None


class OccurrenceIndex:
    """Nearest neighbors of tokens in context, over all tokens of a text.

    Args:
        directory: the index, see `build_occurrence_index`.
        model: the biLM of the index, as an `Embedder` with `layers="all"` or as the first argument
            of `Embedder`. None uses the model that is named in the index.
        precision: "float32" or "bfloat16", see `Embedder`.

    Attributes:
        description: the contents of the index's `index.json`.

    Raises:
        FileNotFoundError: the index or its model does not exist.
        ValueError: the index is damaged, or was built with another biLM.
        MissingExtraError: faiss is not installed.

    Source: Peters et al. 2018, table 4.
    """

    def __init__(self, directory: str | os.PathLike, model: Any = None, precision: str = "float32"):
        self._folder = Path(directory)
        self.description = read_description(self._folder)
        require_extra("faiss", "analysis", "An index of occurrences")
        self._corpus = StoredCorpus(self._folder, [name for name, _ in self.description["files"]])
        self._layers = {
            int(layer): LayerSearch(self._folder, [Part(*part) for part in parts])
            for layer, parts in self.description["layers"].items()
        }
        self._embedder = model if isinstance(model, Embedder) else self._loaded(model, precision)
        check_all_layers(self._embedder, "model")
        if self._embedder.settings()["model"] != self.description["digest"]:
            other = "other weights of" if model is None else "another biLM,"
            raise ValueError(
                f"The index {self._folder} was built with {other} {self.description['model']}. "
                "Name the original biLM (model, --model), or build another index."
            )

    def _loaded(self, model: Any, precision: str) -> Embedder:
        named = self.description["model"] if model is None else model
        if named is None:
            raise ValueError(
                f"The index {self._folder} does not name its biLM. Name it (model, --model)."
            )
        try:
            return Embedder(named, precision=precision)
        except FileNotFoundError as error:
            if model is not None:
                raise
            raise FileNotFoundError(
                f"The index {self._folder} was built with {named}, which no longer exists: {error} "
                "Name the new path of the biLM (model, --model)."
            ) from None

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of the layers that depend on the context, from 1."""
        return tuple(self._layers)

    @property
    def num_sentences(self) -> int:
        """The number of distinct sentences of the text."""
        return self._corpus.num_sentences

    def num_occurrences(self, word: str) -> int:
        """Returns the number of occurrences of a word in the distinct sentences."""
        return len(self._corpus.occurrences(word))

    def tokens(self, sentence: int) -> list[str]:
        """Returns the tokens of a sentence of the text."""
        return self._corpus.tokens(sentence)

    def source(self, sentence: int) -> Source:
        """Returns the file and line of a sentence of the text."""
        return self._corpus.source(sentence)

    def unlike_occurrences(
        self, word: str, count: int = 2, layer: int | None = None
    ) -> list[Occurrence]:
        """Finds occurrences of a word that are typical of different uses.

        Up to 100 occurrences, evenly spaced over the text, are clustered by their vectors
        (k-means); the occurrence nearest to each centre is returned.

        Args:
            word: a token.
            count: int >= 1. Number of clusters, fewer if the word is rarer.
            layer: the layer whose vectors are compared; None for the top layer.

        Returns:
            Occurrences, in order of decreasing cluster size.

        Raises:
            ValueError: the word does not occur, or there is no such layer.
        """
        check_int(count, "count", ge=1)
        layer = self._layer(self.layers[-1] if layer is None else layer)
        numbers = self._corpus.occurrences(word)
        if not len(numbers):
            raise ValueError(f"The word {word!r} does not occur in the text.{self._hint(word)}")
        chosen = np.linspace(0, len(numbers) - 1, min(len(numbers), _MAX_CLUSTERED)).astype(int)
        found = [
            Occurrence(self.tokens(sentence), position, self.source(sentence))
            for sentence, position in self._corpus.places(numbers[chosen])
        ]
        vectors = np.stack([vectors[layer] for vectors in self._vectors(found)])
        return [found[row] for row in cluster_medoids(vectors, count)]

    def nearest(
        self,
        occurrences: Sequence[Occurrence],
        layers: Iterable[int] | None = None,
        top_n: int = 5,
        words: str = "any",
    ) -> list[dict[int, list[Neighbor]]]:
        """Finds the nearest tokens in other sentences.

        Candidates come from the stored vectors. Their sentences are embedded again, so that the
        similarities are exact. At most one token of a sentence is returned.

        Args:
            occurrences: the queries; their sentences need not be in the text.
            layers: the layers whose vectors are compared; None for all but layer 0.
            top_n: int >= 1. Number of neighbors per occurrence and layer.
            words: "any"; "same" for occurrences of the same word only; "other" for other words.

        Returns:
            For each occurrence and layer, the neighbors, nearest first; `sentence` is a number for
            `tokens` and `source`.

        Raises:
            ValueError: an argument is out of range, or a position is outside its sentence.
        """
        check_int(top_n, "top_n", ge=1)
        check_choice(words, "words", WORDS)
        layers = [self._layer(layer) for layer in (self.layers if layers is None else layers)]
        queries = []
        for occurrence, vectors in zip(occurrences, self._vectors(occurrences), strict=True):
            only = without = None
            if words != "any":
                numbers = self._corpus.occurrences(occurrence.tokens[occurrence.position])
                only, without = (numbers, None) if words == "same" else (None, numbers)
            queries += [
                Query(occurrence.tokens, layer, vectors[layer], only, without) for layer in layers
            ]
        search = Search(self._corpus, self._layers, self._embedder)
        found = iter(search.nearest(queries, top_n))
        return [{layer: next(found) for layer in layers} for _ in occurrences]

    def nearest_types(self, word: str, top_n: int = 5) -> list[tuple[str, float]]:
        """Finds the types of the text with the nearest context-independent vectors (layer 0).

        Args:
            word: a token, which need not be in the text.
            top_n: int >= 1. Number of types.

        Returns:
            Types and cosine similarities, within 0.001, nearest first.
        """
        vector = next(token_vectors(self._embedder.bilm, [word]))
        return self._types.nearest_to(vector, top_n, without=word)

    @functools.cached_property
    def _types(self) -> WordVectors:
        types = self._corpus.types
        vectors = np.memmap(self._folder / TYPE_VECTORS, np.float16, "r").reshape(len(types), -1)
        return WordVectors(types, vectors)

    def _layer(self, layer: int) -> int:
        if layer not in self._layers:
            raise ValueError(
                f"The layers that depend on the context are {', '.join(map(str, self.layers))}. "
                f"Received: {layer!r}"
            )
        return layer

    def _vectors(self, occurrences: Sequence[Occurrence]) -> list[np.ndarray]:
        """Embeds occurrences: unit vectors in every layer, each (layer, feature)."""
        for tokens, position, _ in occurrences:
            if not 0 <= position < len(tokens):
                raise ValueError(f"There is no token {position} in the sentence {tokens!r}.")
        arrays = self._embedder.embed([occurrence.tokens for occurrence in occurrences])
        return [
            unit_vectors(array[:, occurrence.position])
            for array, occurrence in zip(arrays, occurrences, strict=True)
        ]

    def _hint(self, word: str) -> str:
        similar = [token for token in self._corpus.types if abs(len(token) - len(word)) <= 2]
        spelling = {token.casefold(): token for token in reversed(similar)}
        near = difflib.get_close_matches(word.casefold(), spelling, n=3)
        return f" Similar words: {', '.join(spelling[key] for key in near)}." if near else ""
