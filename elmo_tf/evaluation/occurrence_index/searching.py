"""An index of occurrences ─► those that are most like one, layer by layer, by exact cosines."""

import difflib
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.neighbours import Neighbour
from elmo_tf.evaluation.occurrence_index.building import TYPE_VECTORS
from elmo_tf.evaluation.occurrence_index.corpus_store import Source, StoredCorpus
from elmo_tf.evaluation.occurrence_index.grouping import group_middles
from elmo_tf.evaluation.occurrence_index.layer_index import LayerSearch, Part, unit_vectors
from elmo_tf.evaluation.occurrence_index.ranking import Query, Search
from elmo_tf.evaluation.occurrence_index.stored import read_description
from elmo_tf.extras import require_extra
from elmo_tf.tasks.data.word_vectors import WordVectors

WORDS = ("any", "same", "other")

# Occurrences among which unlike ones are looked for.
_MOST_GROUPED = 100


class Occurrence(NamedTuple):
    """A token in its sentence.

    tokens: of the sentence.
    position: of the token.
    source: where the sentence was read; None if it is not from the index.
    """

    tokens: list[str]
    position: int
    source: Source | None = None


class OccurrenceIndex:
    """The nearest tokens in context, over all of a text.

    Args:
        directory: what `build_occurrence_index` wrote.
        model: the biLM that it was built with, as an `Embedder` with `layers="all"`, or as what
            `Embedder` takes; None for the one that is named in the index.
        precision: "float32" or "bfloat16", see `Embedder`.

    Raises:
        FileNotFoundError: there is no such index, or its model is not where it was.
        ValueError: the index is damaged, or of another biLM.
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
        self._embedder = self._checked_embedder(model, precision)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that depend on the context: 1 and those above."""
        return tuple(self._layers)

    def num_occurrences(self, word: str) -> int:
        """How often a word stands in the text, equal sentences counted once."""
        return len(self._corpus.occurrences(word))

    def tokens(self, sentence: int) -> list[str]:
        """The tokens of a sentence of the text."""
        return self._corpus.tokens(sentence)

    def source(self, sentence: int) -> Source:
        """The file and the line of a sentence of the text."""
        return self._corpus.source(sentence)

    def unlike_occurrences(
        self, word: str, count: int = 2, layer: int | None = None
    ) -> list[Occurrence]:
        """Occurrences of a word that are typical of different uses.

        Up to 100 of them, from all over the text, are grouped by their vectors (k-means); the one
        in the middle of each group is taken, that of the largest group first.

        Args:
            word: a token.
            count: int >= 1. How many; fewer come if the word is rarer.
            layer: whose vectors are compared; None for the last.

        Raises:
            ValueError: the word does not occur, or there is no such layer.
        """
        check_int(count, "count", least=1)
        layer = self._layer(self.layers[-1] if layer is None else layer)
        numbers = self._corpus.occurrences(word)
        if not len(numbers):
            raise ValueError(f"The word {word!r} does not occur in the text.{self._hint(word)}")
        places = np.linspace(0, len(numbers) - 1, min(len(numbers), _MOST_GROUPED)).astype(int)
        numbers = numbers[places]
        found = [
            Occurrence(self.tokens(sentence), position, self.source(sentence))
            for sentence, position in self._corpus.places(numbers)
        ]
        vectors = np.stack([vectors[layer] for vectors in self._vectors(found)])
        return [found[row] for row in group_middles(vectors, count)]

    def nearest(
        self,
        occurrences: Sequence[Occurrence],
        layers: Iterable[int] | None = None,
        top_n: int = 5,
        words: str = "any",
    ) -> list[dict[int, list[Neighbour]]]:
        """The tokens of other sentences that are most like some occurrences.

        Candidates come from the stored vectors; their sentences are read by the biLM again, so that
        similarities are exact. Of a sentence only the nearest token comes.

        Args:
            occurrences: what to compare with; their sentences need not be in the text.
            layers: whose vectors are compared; None for all but 0.
            top_n: int >= 1. How many for each.
            words: "any", "same" for the occurrence's own word alone, "other" for all but it.

        Returns:
            For each occurrence and layer, the nearest first; `sentence` counts from 0 through the
            text, see `tokens` and `source`.

        Raises:
            ValueError: an argument is none of these, or an occurrence is not in its sentence.
        """
        check_int(top_n, "top_n", least=1)
        check_choice(words, "words", WORDS)
        layers = [self._layer(layer) for layer in (self.layers if layers is None else layers)]
        queries = [
            Query(occurrence.tokens, layer, vector, *self._limits(occurrence, words))
            for occurrence, vectors in zip(occurrences, self._vectors(occurrences), strict=True)
            for layer, vector in ((layer, vectors[layer]) for layer in layers)
        ]
        search = Search(self._corpus, self._layers, self._embedder)
        found = iter(search.nearest(queries, top_n))
        return [{layer: next(found) for layer in layers} for _ in occurrences]

    def nearest_types(self, word: str, top_n: int = 5) -> list[tuple[str, float]]:
        """The types of the text whose vectors without context, those of layer 0, are most alike.

        Args:
            word: a token, which need not be in the text.
            top_n: int >= 1. How many.

        Returns:
            Tokens and cosine similarities, within 0.001, the nearest first.
        """
        vector = tf.cast(self._embedder.bilm.token_embeddings([word]), tf.float32).numpy()[0]
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

    def _limits(
        self, occurrence: Occurrence, words: str
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The numbers of those tokens that alone may be found, and of those that may not."""
        if words == "any":
            return None, None
        numbers = self._corpus.occurrences(occurrence.tokens[occurrence.position])
        return (numbers, None) if words == "same" else (None, numbers)

    def _vectors(self, occurrences: Sequence[Occurrence]) -> list[np.ndarray]:
        """Unit vectors of occurrences in every layer, each (layer, feature)."""
        for tokens, position, _ in occurrences:
            if not 0 <= position < len(tokens):
                raise ValueError(f"There is no token {position} in the sentence {tokens!r}.")
        arrays = self._embedder.embed([occurrence.tokens for occurrence in occurrences])
        return [
            unit_vectors(array[:, occurrence.position])
            for array, occurrence in zip(arrays, occurrences, strict=True)
        ]

    def _hint(self, word: str) -> str:
        """The types that are spelt most like a word."""
        alike = [token for token in self._corpus.types if abs(len(token) - len(word)) <= 2]
        spelt = {token.casefold(): token for token in reversed(alike)}
        near = difflib.get_close_matches(word.casefold(), spelt, n=3)
        return f" Near it are spelt: {', '.join(spelt[key] for key in near)}." if near else ""

    def _checked_embedder(self, model: Any, precision: str) -> Embedder:
        embedder = model if isinstance(model, Embedder) else self._loaded(model, precision)
        if embedder.layers != "all":
            raise ValueError(
                f'`model` must give all layers (layers="all"). Received: {embedder.layers!r}'
            )
        if embedder.settings()["model"] != self.description["digest"]:
            raise ValueError(
                f"The index {self._folder} is of another biLM than "
                f"{'its own model now is' if model is None else 'this one'} (it was built with "
                f"{self.description['model']}, and the weights differ). Name that biLM, or build "
                "another index."
            )
        return embedder

    def _loaded(self, model: Any, precision: str) -> Embedder:
        named = self.description["model"] if model is None else model
        if named is None:
            raise ValueError(f"The index {self._folder} does not name its biLM: name it yourself.")
        try:
            return Embedder(named, precision=precision)
        except FileNotFoundError as error:
            if model is not None:
                raise
            raise FileNotFoundError(
                f"The index {self._folder} was built with {named}, which is not there now: "
                f"{error} Name the place of that biLM."
            ) from None
