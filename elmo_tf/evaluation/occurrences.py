"""An index of all tokens of a text in context, for searches of nearest neighbors.

Its directory holds `contexts.parquet`, the distinct sentences, with the settings as metadata; and
`layer_1.faiss` and so on, the unit vectors of all tokens, which a search compares one by one.
"""

import difflib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.distillation import token_vectors
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.stored_vectors import VectorSource, unit_vectors
from elmo_tf.extras import require_extra
from elmo_tf.progress import progress_over
from elmo_tf.tasks.word_vectors import WordVectors
from elmo_tf.text.corpus import text_files
from elmo_tf.text.sentences import decode, encode

CONTEXTS, METADATA = "contexts.parquet", b"elmo_tf.occurrences.2"
_MAX_CLUSTERED = 100


class Occurrence(NamedTuple):
    """A token in its sentence.

    Attributes:
        tokens: of the sentence.
        position: of the token.
        file, line: where the sentence first appears in the text of an index, lines from 1; or None.
        similarity: the cosine of the vectors of this token and of the query, or None.
    """

    tokens: list[str]
    position: int
    file: str | None = None
    line: int | None = None
    similarity: float | None = None


class OccurrenceIndex:
    """Finds the nearest tokens of a text to tokens in context.

    Args:
        directory: written by `build_occurrence_index`.
        model: an `Embedder` with `layers="all"`, or an argument of `load_bilm`; None for the biLM
            that the index names. It must be the biLM with which the index was built.
        precision: see `Embedder`; ignored if `model` is one.

    Attributes:
        settings: model, digest and precision of the biLM; files and sizes of the text; and counts.
        layers: the numbers of the layers that depend on the context, from 1.

    Raises:
        FileNotFoundError: the index or its model does not exist.
        ValueError: the index is damaged, or was built with another biLM.
        MissingExtraError: faiss or pyarrow is not installed.

    Source: Peters et al. 2018, table 4.
    """

    def __init__(self, directory: str | os.PathLike, model: Any = None, precision: str = "float32"):
        self._folder = Path(directory)
        self._read()
        named = self.settings["model"]
        remedy = "Name the original biLM (model, --model), or build another index."
        if model is None and named is None:
            raise ValueError(f"The index {directory} does not name its biLM. {remedy}")
        self._embedder = model
        if not isinstance(model, Embedder):
            self._embedder = Embedder(named if model is None else model, precision=precision)
        check_all_layers(self._embedder, "model")
        if self._embedder.settings()["model"] != self.settings["digest"]:
            raise ValueError(
                f"The index {directory} was built with another biLM, {named}. {remedy}"
            )

    def _read(self) -> None:
        faiss, contexts = faiss_module(), self._folder / CONTEXTS
        if not contexts.exists():
            raise FileNotFoundError(f"There is no index {self._folder}: it has no {CONTEXTS}.")
        try:
            table = parquet().read_table(contexts)
            self.settings = json.loads(table.schema.metadata[METADATA])
            self._sentences, self._files, self._lines = table.columns
            self._starts = np.cumsum([0, *(row.as_py().count(b" ") + 1 for row in self._sentences)])
            self.layers = tuple(range(1, self.settings["layers"]))
            self._indices = {
                layer: faiss.read_index(
                    str(self._folder / f"layer_{layer}.faiss"), faiss.IO_FLAG_MMAP_IFC
                )
                for layer in self.layers
            }
        except (KeyError, TypeError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).rpartition("Error: ")[2].strip()
            raise ValueError(
                f"{self._folder} is damaged, or of another version: {reason}. Rebuild the index."
            ) from None
        self._types = list(
            dict.fromkeys(token for row in self._sentences for token in tokens_of_row(row))
        )
        self.settings |= {"sentences": len(self._sentences), "tokens": int(self._starts[-1])}
        self.settings["types"] = len(self._types)

    def check_same_text(self, patterns: Sequence[str], max_tokens: int | None) -> None:
        """Raises `ValueError` if the text was read from other files or with another `max_tokens`.

        Without patterns, and with None, that is not checked.
        """
        files = [[os.path.abspath(file), file.stat().st_size] for file in text_files(patterns)]
        built, limit = self.settings["files"], self.settings["max_tokens"]
        if patterns and sorted(files) != sorted(built):
            raise ValueError(
                f"The index {self._folder} was built from other files, or they have changed: "
                f"{built[0][0]}, …. Build another index, or omit the corpus."
            )
        if max_tokens not in (None, limit):
            raise ValueError(
                f"The index {self._folder} was built with max_tokens={limit}, not {max_tokens}. "
                "Build another index, or omit max_tokens."
            )

    def unlike_occurrences(
        self, word: str, count: int = 2, layer: int | None = None
    ) -> list[Occurrence]:
        """Finds occurrences of a word that are typical of different uses.

        Up to 100 occurrences, evenly spaced over the text, are clustered by their vectors
        (k-means); the occurrence nearest to each center is returned.

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
        (layer,) = self._checked(self.layers[-1:] if layer is None else [layer])
        numbers = self.numbers(word)
        if not len(numbers):
            similar = [token for token in self._types if abs(len(token) - len(word)) <= 2]
            spelling = {token.casefold(): token for token in reversed(similar)}
            near = difflib.get_close_matches(word.casefold(), spelling)
            hint = f" Similar words: {', '.join(spelling[key] for key in near)}." if near else ""
            raise ValueError(f"The word {word!r} does not occur in the text.{hint}")
        chosen = np.linspace(0, len(numbers) - 1, min(len(numbers), _MAX_CLUSTERED)).astype(int)
        found = self._occurrences(numbers[chosen])
        return [found[row] for row in cluster_medoids(self._vectors(found)[:, layer], count)]

    def nearest(
        self,
        occurrences: Sequence[Occurrence],
        layers: Iterable[int] | None = None,
        top_n: int = 5,
        words: str = "any",
    ) -> list[dict[int, list[Occurrence]]]:
        """Finds the nearest tokens in other sentences, at most one of each sentence.

        Candidates come from the stored vectors. Their sentences are embedded again, so that the
        similarities are exact.

        Args:
            occurrences: the queries; their sentences need not be in the text.
            layers: the layers whose vectors are compared; None for all but layer 0.
            top_n: int >= 1. Number of neighbors per occurrence and layer.
            words: "any"; "same" for occurrences of the same word only; "other" for other words.

        Returns:
            For each occurrence and layer, the neighbors, nearest first.

        Raises:
            ValueError: an argument is out of range, or a position is outside its sentence.
        """
        check_int(top_n, "top_n", ge=1)
        layers = self._checked(self.layers if layers is None else layers)
        vectors = self._vectors(occurrences)
        return [
            {layer: self._nearest(one, layer, own[layer], top_n, words) for layer in layers}
            for one, own in zip(occurrences, vectors, strict=True)
        ]

    def _nearest(
        self, query: Occurrence, layer: int, vector: np.ndarray, top_n: int, words: str
    ) -> list[Occurrence]:
        faiss = faiss_module()
        allowed = self._allowed(query, words)
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        parameters = faiss.SearchParameters(sel=selector)
        count = max(20, 4 * top_n)
        while True:
            most = max(1, min(count, int(allowed.sum())))
            _, (numbers,) = self._indices[layer].search(vector[None], most, params=parameters)
            numbers = numbers[numbers >= 0]
            exact = self._vectors(self._occurrences(numbers))[:, layer] @ vector
            best = self._ranked(query, numbers, exact, top_n)
            if len(best) == top_n or len(numbers) < count:
                return best
            count *= 4  # a few sentences hold most of the candidates

    def nearest_by_vectors(
        self,
        source: VectorSource,
        occurrences: Sequence[Occurrence],
        top_n: int = 5,
        words: str = "any",
    ) -> list[dict[int, list[Occurrence]]]:
        """Finds neighbors as `nearest` does, by the vectors of another model.

        Args:
            source: the vectors of all sentences of the text and of the queries.
            occurrences, top_n, words: see `nearest`.

        Returns:
            See `nearest`, with all layers of the file, from 0.

        Raises:
            ValueError: a sentence has no vectors.
        """
        queries = self._vectors(occurrences, source)
        near = []
        num_rows = len(self._sentences)
        for row in progress_over(self._sentences, num_rows, "comparing", "sentences"):
            vectors = unit_vectors(next(source.embed([tokens_of_row(row)])))
            near.append(np.einsum("ltf,qlf->qlt", vectors, queries))
        found = []
        for one, cosines in zip(occurrences, np.concatenate(near, axis=-1), strict=True):
            numbers = np.flatnonzero(self._allowed(one, words))
            found.append(
                {
                    layer: self._ranked(one, numbers, row[numbers], top_n)
                    for layer, row in enumerate(cosines)
                }
            )
        return found

    def nearest_types(self, word: str, top_n: int = 5) -> list[tuple[str, float]]:
        """Finds the types of the text with the nearest context-independent vectors (layer 0).

        Args:
            word: a token, which need not be in the text.
            top_n: int >= 1. Number of types.

        Returns:
            Types and cosine similarities, nearest first.
        """
        words = [*self._types, word]
        vectors = token_vectors(self._embedder.bilm, words)
        *vectors, query = progress_over(vectors, len(words), "encoding types", "types")
        return WordVectors(self._types, np.stack(vectors)).nearest_to(query, top_n, without=word)

    def numbers(self, word: str) -> np.ndarray:
        """Returns the numbers of the occurrences of a word among all tokens of the text."""
        compute = require_extra("pyarrow.compute", "analysis", "An index of occurrences")
        has_word = compute.match_substring(self._sentences, encode(word)).to_numpy()
        found = [
            self._starts[row] + position
            for row in np.flatnonzero(has_word).tolist()
            for position, token in enumerate(tokens_of_row(self._sentences[row]))
            if token == word
        ]
        return np.array(found, np.int64)

    def _allowed(self, query: Occurrence, words: str) -> np.ndarray:
        """Which tokens of the text may be neighbors, bool (token,)."""
        check_choice(words, "words", ("any", "same", "other"))
        allowed = np.full(self._starts[-1], words != "same")
        if words != "any":
            allowed[self.numbers(query.tokens[query.position])] = words == "same"
        return allowed

    def _ranked(
        self, query: Occurrence, numbers: np.ndarray, near: np.ndarray, top_n: int
    ) -> list[Occurrence]:
        """The most similar tokens, at most one of a sentence and none of the query's."""
        best: dict[tuple[str, ...], Occurrence] = {}  # by sentence
        for row in np.argsort(-near, kind="stable").tolist():
            (one,) = self._occurrences(numbers[row : row + 1])
            if one.tokens != query.tokens:
                best.setdefault(tuple(one.tokens), one._replace(similarity=float(near[row])))
            if len(best) == top_n:
                break
        return list(best.values())

    def _occurrences(self, numbers: np.ndarray) -> list[Occurrence]:
        """The tokens with these numbers."""
        rows = (np.searchsorted(self._starts, numbers, side="right") - 1).tolist()
        return [
            Occurrence(
                tokens_of_row(self._sentences[row]),
                int(number - self._starts[row]),
                self.settings["files"][self._files[row].as_py()][0],
                self._lines[row].as_py(),
            )
            for row, number in zip(rows, numbers, strict=True)
        ]

    def _vectors(self, occurrences: Sequence[Occurrence], source: Any = None) -> np.ndarray:
        """Embeds occurrences: unit vectors (occurrence, layer, feature)."""
        for one in occurrences:
            if not 0 <= one.position < len(one.tokens):
                raise ValueError(
                    f"There is no token {one.position} in the sentence {one.tokens!r}."
                )
        source = self._embedder if source is None else source
        arrays = source.embed([one.tokens for one in occurrences])
        places = [one.position for one in occurrences]
        found = [unit_vectors(a[:, place]) for a, place in zip(arrays, places, strict=True)]
        return np.array(found, np.float32).reshape(-1, source.num_layers, source.dim)

    def _checked(self, layers: Iterable[int]) -> list[int]:
        layers = list(layers)
        for layer in layers:
            if layer not in self.layers:
                raise ValueError(
                    f"The layers that depend on the context are {', '.join(map(str, self.layers))}."
                    f" Received: {layer!r}"
                )
        return layers


def cluster_medoids(vectors: np.ndarray, count: int) -> list[int]:
    """Clusters unit vectors, float32 (row, feature), by k-means into at most `count` clusters.

    Returns:
        The row nearest to each center, in order of decreasing cluster size.
    """
    count = min(count, len(vectors))
    settings = {"niter": 20, "nredo": 3, "seed": 0, "spherical": True, "min_points_per_centroid": 1}
    means = faiss_module().Kmeans(vectors.shape[1], count, **settings)
    means.train(vectors)
    similarities = vectors @ means.centroids.T  # (row, cluster)
    clusters = similarities.argmax(axis=1)
    similarities[np.arange(count) != clusters[:, None]] = -np.inf
    sizes = np.bincount(clusters, minlength=count)
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return [int(similarities[:, cluster].argmax()) for cluster in order]


def tokens_of_row(sentence: Any) -> list[str]:
    """The tokens of a value of `contexts.parquet`."""
    return decode(sentence.as_py()).split(" ")


def faiss_module() -> Any:
    """Imports faiss."""
    return require_extra("faiss", "analysis", "An index of occurrences")


def parquet() -> Any:
    """Imports pyarrow's module for Parquet."""
    return require_extra("pyarrow.parquet", "analysis", "An index of occurrences")
