"""An index of all tokens of a text in context, for searches of nearest neighbors.

Its directory holds `contexts.parquet`, the distinct sentences, with the settings as metadata; and
`layer_1.faiss` and so on, the unit vectors of all tokens, which a search compares one by one.
"""

import difflib
import functools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.evaluation.distillation import layer_0_vectors
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_directory, json_text
from elmo_tf.progress import progress, progress_over
from elmo_tf.tasks.word_vectors import WordVectors
from elmo_tf.text.batches import read_ahead
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS
from elmo_tf.text.counting import reported_lines
from elmo_tf.text.reading import decode, encode, text_files

_CONTEXTS, _LAYER = "contexts.parquet", "layer_{}.faiss"
_METADATA = b"elmo_tf.occurrences.2"
_TOKENS_PER_BLOCK = 8_192
_MAX_CLUSTERED = 100

_optional = functools.partial(require_extra, extra="analysis", purpose="An index of occurrences")


def require_packages() -> list[Any]:
    """The modules that build an index; `MissingExtraError` if one is not installed."""
    return [*map(_optional, ("pyarrow", "pyarrow.parquet", "faiss"))]


def build_occurrence_index(
    embedder: Embedder,
    files: Sequence[str | os.PathLike],
    directory: str | os.PathLike,
    max_tokens: int | None = None,
    model: str | None = None,
    sentences: Mapping[str, tuple[int, int]] | None = None,
) -> None:
    """Builds an index of all tokens of a text, for `OccurrenceIndex`.

    Equal sentences are indexed once. Memory holds the text, and one byte per number of the vectors.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        files: text files, one tokenized sentence per line. A line of over 10,000 tokens is split.
        directory: the index, which appears when it is complete.
        max_tokens: int >= 1 or None. Reading stops after the sentence that reaches this number.
        model: the biLM's path or name for `load_bilm`, stored as the default of `OccurrenceIndex`.
        sentences: `distinct_sentences(files, max_tokens)`, if the caller has read them.

    Raises:
        ValueError: the files hold no token, or `embedder` does not return all layers.
        FileExistsError: `directory` exists and is not an empty directory.
        MissingExtraError: faiss or pyarrow is not installed.
    """
    check_all_layers(embedder)
    check_int(1 if max_tokens is None else max_tokens, "max_tokens", ge=1)
    pa, parquet, _ = require_packages()
    names = [os.path.abspath(file) for file in files]
    settings = {
        "model": model,
        "digest": embedder.settings()["model"],
        "precision": embedder.precision,
        "files": [[name, os.path.getsize(name)] for name in names],
        "max_tokens": max_tokens,
        "layers": embedder.num_layers,
    }
    # Not strings: a text may have bytes that are not valid UTF-8.
    fields = [("sentence", pa.binary()), ("file", pa.int32()), ("line", pa.int64())]
    schema = pa.schema(fields, {_METADATA: json_text(settings)})
    with atomic_directory(directory) as folder:
        sentences = sentences or distinct_sentences(names, max_tokens)
        columns = [list(map(encode, sentences)), *zip(*sentences.values(), strict=True)]
        parquet.write_table(pa.table(columns, schema=schema), folder / _CONTEXTS)
        _write_vectors(embedder, sentences, folder)


def _write_vectors(embedder: Embedder, sentences: Iterable[str], folder: Path) -> None:
    """Writes the unit vectors of each layer but layer 0, one byte per number."""
    faiss = _optional("faiss")
    settings = embedder.dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    indices = [faiss.IndexScalarQuantizer(*settings) for _ in range(1, embedder.num_layers)]
    num_tokens = sum(sentence.count(" ") + 1 for sentence in sentences)
    arrays = iter(embedder.embed(sentence.split(" ") for sentence in sentences))
    with progress(num_tokens, "embedding", "tokens") as meter:
        while block := read_ahead(arrays, _TOKENS_PER_BLOCK, lambda array: array.shape[1]):
            vectors = unit_vectors(np.concatenate(block, axis=1)[1:])
            for index, layer in zip(indices, vectors, strict=True):
                if not index.is_trained:
                    index.sq.rangestat_arg = 0.2  # later numbers may exceed the range of these
                    index.train(layer)
                index.add(layer)
            meter.update(vectors.shape[1])
    for layer, index in enumerate(indices, start=1):
        faiss.write_index(index, str(folder / _LAYER.format(layer)))


class Occurrence(NamedTuple):
    """A token in its sentence."""

    tokens: list[str]
    position: int
    file: str | None = None  # where the sentence first appears in the text of an index
    line: int | None = None  # from 1
    similarity: float | None = None  # the cosine of the vectors of this token and of the query


class OccurrenceIndex:
    """Finds the nearest tokens of a text to tokens in context.

    Args:
        directory: written by `build_occurrence_index`.
        model: an `Embedder` with `layers="all"`, or an argument of `load_bilm`; None for the biLM
            that the index names. It must be the biLM with which the index was built.
        precision: see `Embedder`; ignored if `model` is one.
        check: a function of the index that is called before the model is loaded, for checks of
            the text and of queries. None checks nothing.

    Attributes:
        settings: model, digest and precision of the biLM; files and sizes of the text; and counts.
        layers: the layers that depend on the context, from 1.
        types: the distinct tokens of the text, with their ids.

    Raises:
        FileNotFoundError: the index or its model does not exist.
        ValueError: the index is damaged, or was built with another biLM.
        MissingExtraError: faiss or pyarrow is not installed.

    Source: Peters et al. 2018, table 4.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        model: Any = None,
        precision: str = "float32",
        check: Callable[["OccurrenceIndex"], None] | None = None,
    ):
        self._folder = Path(directory)
        self._read()
        if check is not None:
            check(self)
        named = self.settings["model"]
        model = named if model is None else model
        remedy = "Name the original biLM (model, --model), or build another index."
        if model is None:
            raise ValueError(f"The index {directory} does not name its biLM. {remedy}")
        is_open = isinstance(model, Embedder)
        self._embedder = model if is_open else Embedder(model, precision=precision)
        check_all_layers(self._embedder, "model")
        if self._embedder.settings()["model"] != self.settings["digest"]:
            raise ValueError(
                f"The index {directory} was built with another biLM, {named}. {remedy}"
            )

    def _read(self) -> None:
        faiss, contexts = _optional("faiss"), self._folder / _CONTEXTS
        if not contexts.exists():
            raise FileNotFoundError(f"There is no index {self._folder}: it has no {_CONTEXTS}.")
        try:
            table = _optional("pyarrow.parquet").read_table(contexts)
            self.settings = json.loads(table.schema.metadata[_METADATA])
            self.layers = tuple(range(1, self.settings["layers"]))
            files = [str(self._folder / _LAYER.format(layer)) for layer in self.layers]
            self._vectors = [faiss.read_index(file, faiss.IO_FLAG_MMAP_IFC) for file in files]
            sentences, self._files, self._lines = table.columns
            self._sentences = sentences.cast("large_binary").combine_chunks()
            tokens = _optional("pyarrow.compute").split_pattern(self._sentences, " ")
        except (KeyError, TypeError, OSError, RuntimeError, ValueError) as error:
            reason = str(error).rpartition("Error: ")[2].strip()
            raise ValueError(
                f"{self._folder} is damaged, or of another version: {reason}. Rebuild the index."
            ) from None
        self._starts = tokens.offsets.to_numpy()  # the index of each sentence's first token
        types = tokens.values.dictionary_encode()
        self.types = {decode(word): id for id, word in enumerate(types.dictionary.to_pylist())}
        self._type_ids = types.indices.to_numpy()  # (token,)
        self.settings["sentences"] = len(self._sentences)
        self.settings["tokens"], self.settings["types"] = len(self._type_ids), len(self.types)

    def check_same_text(self, patterns: Sequence[str], max_tokens: int | None) -> None:
        """Raises `ValueError` if the text was read from other files or with another `max_tokens`.

        Without patterns, and with None, that is not checked.
        """
        files = [[os.path.abspath(file), file.stat().st_size] for file in text_files(patterns)]
        built, limit, problem = self.settings["files"], self.settings["max_tokens"], None
        if patterns and sorted(files) != sorted(built):
            problem = f"from other files, or they have changed: {built[0][0]}, …"
        elif max_tokens not in (None, limit):
            problem = f"with max_tokens={limit}, not {max_tokens}"
        if problem:
            raise ValueError(
                f"The index {self._folder} was built {problem}. Build another index, or omit the "
                "corpus and max_tokens."
            )

    def unlike_occurrences(
        self, word: str, count: int = 2, layer: int | None = None
    ) -> list[Occurrence]:
        """Finds occurrences of a word that are typical of different uses.

        Up to 100 occurrences, evenly spaced over the text, are clustered by their vectors
        (k-means); the occurrence nearest to each center is returned, large clusters first.

        Args:
            word: a token.
            count: int >= 1. Number of clusters, fewer if the word is rarer.
            layer: the layer whose vectors are compared; None for the top layer.

        Raises:
            ValueError: the word does not occur, or there is no such layer.
        """
        check_int(count, "count", ge=1)
        layers = self.layers[-1:] if layer is None else [layer]
        (layer,) = check_layers(layers, self.settings["layers"])
        check_word(word, self.types)
        places = self.places(word)
        spaced = np.linspace(0, len(places) - 1, min(len(places), _MAX_CLUSTERED)).astype(int)
        candidates = self._occurrences(places[spaced])
        vectors = _embedded(self._embedder, candidates)[:, layer]
        return [candidates[row] for row in cluster_medoids(vectors, count)]

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
        layers = check_layers(self.layers if layers is None else layers, self.settings["layers"])
        vectors = _embedded(self._embedder, occurrences)
        return [
            {layer: self._nearest(query, layer, own[layer], top_n, words) for layer in layers}
            for query, own in zip(occurrences, vectors, strict=True)
        ]

    def _nearest(
        self, query: Occurrence, layer: int, vector: np.ndarray, top_n: int, words: str
    ) -> list[Occurrence]:
        faiss, allowed = _optional("faiss"), self._allowed(query, words)
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        parameters = faiss.SearchParameters(sel=selector)
        count = max(20, 4 * top_n)
        while True:
            most = max(1, min(count, int(allowed.sum())))
            _, (places,) = self._vectors[layer - 1].search(vector[None], most, params=parameters)
            candidates = self._occurrences(places[places >= 0])
            cosines = _embedded(self._embedder, candidates)[:, layer] @ vector
            best: dict[tuple[str, ...], Occurrence] = {}  # of each sentence
            for row in np.argsort(-cosines, kind="stable"):
                near = candidates[row]._replace(similarity=float(cosines[row]))
                best.setdefault(tuple(near.tokens), near)
            if len(best) >= top_n or len(candidates) < count:
                return list(best.values())[:top_n]
            count *= 4  # a few sentences hold most of the candidates

    def nearest_types(self, word: str, top_n: int = 5) -> list[tuple[str, float]]:
        """Finds the `top_n` types of the text with the nearest context-free vectors (layer 0).

        `word` need not be in the text. Returns types and cosine similarities, nearest first.
        """
        types = list(self.types)
        vectors = layer_0_vectors(self._embedder.bilm, [*types, word])
        *vectors, query = progress_over(vectors, len(types) + 1, "encoding types", "types")
        return WordVectors(types, np.stack(vectors)).nearest_to(query, top_n, without=word)

    def places(self, word: str) -> np.ndarray:
        """Returns the indices of the occurrences of a word among all tokens of the text."""
        return np.flatnonzero(self._type_ids == self.types.get(word, -1))

    def _allowed(self, query: Occurrence, words: str) -> np.ndarray:
        """Which tokens of the text may be neighbors, bool (token,)."""
        check_choice(words, "words", ("any", "same", "other"))
        is_same = self._type_ids == self.types.get(query.tokens[query.position], -1)
        allowed = {"any": np.ones_like(is_same), "same": is_same, "other": ~is_same}[words]
        row = self._sentences.index(encode(" ".join(query.tokens))).as_py()
        if row >= 0:
            allowed[self._starts[row] : self._starts[row + 1]] = False
        return allowed

    def _occurrences(self, places: np.ndarray) -> list[Occurrence]:
        occurrences = []
        rows = np.searchsorted(self._starts, places, side="right") - 1
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            file, _ = self.settings["files"][self._files[row].as_py()]
            tokens = decode(self._sentences[row].as_py()).split(" ")
            position = place - int(self._starts[row])
            occurrences.append(Occurrence(tokens, position, file, self._lines[row].as_py()))
        return occurrences


def _embedded(embedder: Embedder, occurrences: Sequence[Occurrence]) -> np.ndarray:
    """Embeds occurrences: unit vectors (occurrence, layer, feature)."""
    for tokens, position, *_ in occurrences:
        if not 0 <= position < len(tokens):
            raise ValueError(f"There is no token {position} in the sentence {tokens!r}.")
    arrays = embedder.embed([one.tokens for one in occurrences])
    vectors = [array[:, one.position] for one, array in zip(occurrences, arrays, strict=True)]
    return unit_vectors(np.reshape(vectors, (-1, embedder.num_layers, embedder.dim)))


def cluster_medoids(vectors: np.ndarray, count: int) -> list[int]:
    """Clusters unit vectors, float32 (row, feature), by k-means into at most `count` clusters.

    Returns the row nearest to each center, in order of decreasing cluster size.
    """
    count = min(count, len(vectors))
    settings = {"niter": 20, "nredo": 3, "seed": 0, "spherical": True, "min_points_per_centroid": 1}
    means = _optional("faiss").Kmeans(vectors.shape[1], count, **settings)
    means.train(vectors)
    similarities, clusters = means.assign(vectors)
    sizes = np.bincount(clusters)
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return [max(np.flatnonzero(clusters == c), key=similarities.item) for c in order]


def distinct_sentences(
    files: Sequence[str | os.PathLike], max_tokens: int | None = None
) -> dict[str, tuple[int, int]]:
    """The first sentences, joined by spaces, with the indices of their files and their lines.

    Raises:
        ValueError: the files hold no token; or see `sentence_lines`.
    """
    left = max_tokens or math.inf
    sentences: dict[str, tuple[int, int]] = {}
    parts = (
        ((file, line), tokens[start : start + MAX_SENTENCE_TOKENS])
        for file, path in enumerate(files)
        for line, text in enumerate(reported_lines([path], format=None), start=1)
        for tokens in [text.split()]
        for start in range(0, len(tokens), MAX_SENTENCE_TOKENS)
    )
    with progress(None, "reading the corpus", "tokens") as meter:
        for place, part in parts:
            sentence = " ".join(part)
            if sentence not in sentences:
                sentences[sentence] = place
                left -= len(part)
                meter.update(len(part))
            if left <= 0:
                break
    if not sentences:
        raise ValueError(f"There is no token in {files[0]}, ….")
    return sentences


def check_word(word: str, types: Iterable[str]) -> None:
    """Raises `ValueError`, which names similar words, if a word is not one of the `types`."""
    if word in types:
        return
    similar = {t.casefold(): t for t in types if abs(len(t) - len(word)) <= 2}
    near = [similar[key] for key in difflib.get_close_matches(word.casefold(), similar)]
    hint = f" Similar words: {', '.join(near)}." if near else ""
    raise ValueError(f"The word {word!r} does not occur in the text.{hint}")


def check_layers(layers: Iterable[int], num_layers: int) -> list[int]:
    """Returns layers; `ValueError` if one does not depend on the context or does not exist."""
    layers = list(layers)
    for layer in layers:
        if not 1 <= layer < num_layers:
            allowed = ", ".join(map(str, range(1, num_layers)))
            raise ValueError(
                f"The layers that depend on the context are {allowed}. Received: {layer!r}"
            )
    return layers
