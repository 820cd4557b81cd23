"""Vectors in files: read in place of an `Embedder`, compared with a model's, and distilled."""

import abc
import functools
import hashlib
import itertools
import json
import os
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.checkpoints.weight_files import hdf5_datasets, local_dataset, open_hdf5
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.vector_files import SENTENCES
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.files import atomic_file
from elmo_tf.lazy import require_extra
from elmo_tf.logs import progress_over
from elmo_tf.models.bilm import BiLM
from elmo_tf.tasks.reading import read_word_vectors
from elmo_tf.text.reading import encode, open_bytes
from elmo_tf.text.sentence_files import FileSentence

_WORDS_AT_ONCE = 1024


class VectorSource(abc.ABC):
    """The part of an `Embedder` that measures use: the layers of sentences.

    A subclass sets `num_layers` and `dim`, and implements `embed`.

    Args:
        path: the file or folder.
    """

    layers = "all"
    precision = "float32"
    num_layers: int
    dim: int

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def files(self) -> list[Path]:
        """The files that hold the vectors."""
        return sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]

    def settings(self) -> dict[str, Any]:
        """Identifies the vectors by a digest of the path, size and time of their files."""
        state = [(str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns) for f in self.files()]
        digest = hashlib.sha256(json.dumps(state).encode()).hexdigest()
        return {"model": digest, "precision": self.precision}

    @abc.abstractmethod
    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """Yields the layers of each sentence, float32 (layer, token, feature)."""


class WordVectorSource(VectorSource):
    """Static word vectors, as one layer; zeros for words without a vector.

    Attributes:
        vectors: the vector of each word, see `read_word_vectors`.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__(path)
        self.vectors = read_word_vectors(path)
        self.num_layers, self.dim = 1, len(next(iter(self.vectors.values())))

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        default = np.zeros(self.dim, np.float32)
        for tokens in sentences:
            rows = [self.vectors.get(token, default) for token in tokens]
            yield np.array(rows, np.float32).reshape(1, len(rows), self.dim)


class SentenceVectorSource(VectorSource):
    """Vectors of the tokens of sentences in a file, which are found by the tokens.

    Args:
        path: see `open_stored`.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__(path)
        _, self._places, self._read = open_stored(path)
        if not self._places:
            raise ValueError(f"{path} has no sentences (`{SENTENCES}`, or the column `tokens`).")
        first = np.asarray(self._read(next(iter(self._places.values()))))
        if first.ndim not in (2, 3):
            raise ValueError(
                f"{path} must have one vector per token. Received: an array of shape {first.shape}."
            )
        self.num_layers, _, self.dim = _with_layers(first).shape

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        for tokens in sentences:
            text = key_of(" ".join(tokens))
            if text not in self._places:
                raise ValueError(f"{self.path} has no vectors of the sentence {text[:80]!r}.")
            array = _with_layers(np.asarray(self._read(self._places[text])))
            wanted = self.num_layers, len(tokens), self.dim
            if array.shape != wanted:
                raise ValueError(
                    f"{self.path} must have vectors of shape {wanted} (layer, token, feature) for "
                    f"the sentence {text[:80]!r}. Received: {array.shape}."
                )
            yield array


def open_vectors(path: str | os.PathLike) -> VectorSource:
    """Opens a file of vectors, chosen by its suffix.

    Args:
        path: `.hdf5`, `.h5` or `.parquet` (a folder), as `elmo-tf embed` writes them; anything else
            is a file of static word vectors, see `read_word_vectors`.

    Raises:
        FileNotFoundError: there is no such file.
        BlockingIOError: another process writes the file.
        ValueError: the file is damaged, or of another format.
    """
    if Path(path).suffix.lower() not in (".hdf5", ".h5", ".parquet"):
        return WordVectorSource(path)
    return SentenceVectorSource(path)


class Stored(NamedTuple):
    """The vectors of sentences in a file.

    Attributes:
        numbers: the places of sentences by number, from 0; empty if the file has only texts.
        texts: the places of sentences by text (see `key_of`) or identifier; empty without texts.
        read: returns the vectors at a place, (layer, token, feature) or with fewer axes: an array,
            or a dataset of HDF5, which is read later.
    """

    numbers: dict[int, Any]
    texts: dict[str, Any]
    read: Callable[[Any], Any]


def open_stored(path: str | os.PathLike) -> Stored:
    """Opens a file of the vectors of sentences.

    Args:
        path: a folder of Parquet shards, or one shard, as `elmo-tf embed` writes them. Anything
            else is HDF5 with one dataset per sentence, as of `elmo-tf embed`, AllenNLP and
            ELMoForManyLangs.

    Errors: see `open_vectors`.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file of vectors {path}.")
    try:
        return _parquet(path) if path.suffix.lower() == ".parquet" else _hdf5(path)
    except BlockingIOError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's too
        raise ValueError(f"Cannot read vectors in {path}: {error}") from None


def key_of(text: str) -> str:
    """A sentence with single spaces, and with U+FFFD for invalid UTF-8, as in Parquet files."""
    return encode(" ".join(text.split())).decode("utf-8", "replace")


def _hdf5(path: Path) -> Stored:
    """Datasets named by numbers, perhaps with `sentence_to_index`, or named by sentences."""
    file = open_hdf5(path)

    def read(name: str) -> Any:
        return local_dataset(file, file[name])

    if SENTENCES in file:
        numbers = {int(name): name for name in file if name != SENTENCES}
        texts = json.loads(read(SENTENCES)[0])
        texts = {key_of(text): name for text, name in texts.items()}
        return Stored(numbers, texts, read)
    names = [name for name, _ in hdf5_datasets(file)]
    # A dataset that is named by its sentence has the number of its line.
    has_lines = any("line" in file[name].attrs for name in names[:1])
    if all(map(str.isdecimal, names)) and not has_lines:
        return Stored({int(name): name for name in names}, {}, read)
    # Characters are escaped that have a meaning in HDF5 paths: in ELMoForManyLangs, and by
    # `HDF5File` in identifiers.
    escaped = {key_of(k.replace("$period$", ".").replace("$backslash$", "/")): k for k in names}
    escaped |= {key_of(urllib.parse.unquote(k)): k for k in names if "%" in k}
    return Stored({}, escaped | {key_of(name): name for name in names}, read)


def _parquet(path: Path) -> Stored:
    """Shards with one row per sentence, see `ParquetFile`."""
    parquet = require_extra("pyarrow.parquet", "parquet", "Parquet")
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    numbers, texts, text_files = {}, {}, set()
    for path in paths:
        with parquet.ParquetFile(path) as file:
            columns = set(file.schema_arrow.names)
            if missing := {"line", "shape", "vectors"} - columns:
                raise ValueError(f"there is no column {', '.join(sorted(missing))}.")
            names = sorted(columns & {"file", "line", "tokens"})
            for group in range(file.num_row_groups):
                for row, sentence in enumerate(file.read_row_group(group, names).to_pylist()):
                    numbers[sentence["line"]] = path, group, row
                    text_files.add(sentence.get("file"))
                    if "tokens" in sentence:
                        texts[key_of(" ".join(sentence["tokens"]))] = path, group, row
    if len(text_files) > 1:  # which all have a line 0
        numbers = {}

    @functools.lru_cache(maxsize=2)
    def read_group(path: Path, group: int) -> Any:
        with parquet.ParquetFile(path) as file:
            return file.read_row_group(group, ["shape", "vectors"])

    def read(place: tuple[Path, int, int]) -> np.ndarray:
        *group, row = place
        table = read_group(*group)
        return table["vectors"][row].values.to_numpy().reshape(table["shape"][row].as_py())

    return Stored(numbers, texts, read)


def compare_vectors(
    old: Stored,
    embedder: Embedder,
    sentences: Sequence[FileSentence],
    tolerance: float = 1e-5,
) -> dict[str, Any]:
    """Compares a file of vectors with those that an `Embedder` computes.

    Args:
        old: the file.
        embedder: returns the layers that the file has.
        sentences: the sentences of the text from which the file was made.
        tolerance: largest difference at which vectors are equal.

    Returns:
        A dict: "equal"; "sentences", their number; "different", the number of sentences whose
        vectors differ; "first_different", the number, the text and the kind of difference of the
        first of them, or None; "more_in_file", the number of sentences of the file that are not in
        the text; and "layers", for each layer its number or name (as in `embedder.layers`), and the
        "largest" difference and the mean "cosine" of its vectors, if any can be compared.
    """
    arrays = embedder.embed([sentence.tokens for sentence in sentences])
    arrays = progress_over(arrays, len(sentences), "embedding", "sentences")
    texts = {place: text for text, place in old.texts.items()}
    unread = set((old.numbers or old.texts).values())
    num_different, first = 0, None
    names = range(embedder.num_layers) if embedder.layers == "all" else [embedder.layers]
    found = [np.zeros((2, len(names), 0))]
    for index, (sentence, new) in enumerate(zip(sentences, arrays, strict=True)):
        place = _place(old, index, sentence)
        unread.discard(place)
        theirs = None if place is None else _with_layers(old.read(place)[()])
        new = _with_layers(new)
        text = key_of(sentence.identifier or " ".join(sentence.tokens))
        difference = _difference(theirs, new, sentence.tokens, names, tolerance)
        if difference and sentence.identifier is None and texts.get(place, text) != text:
            difference = (
                f"other tokens, or another order: the file has the sentence {texts[place]!r}"
            )
        if difference:
            num_different += 1
            first = first or {"sentence": index, "text": text, "difference": difference}
        if theirs is not None and theirs.shape == new.shape:
            away = np.abs(theirs - new).max(axis=-1)
            cosines = (unit_vectors(theirs) * unit_vectors(new)).sum(axis=-1)
            found.append(np.stack([away, cosines]))  # (2, layer, token)
    layers = []
    of_layers = np.concatenate(found, axis=-1).swapaxes(0, 1)
    for layer, (away, near) in zip(names, of_layers, strict=True):
        numbers = {"largest": away.max(), "cosine": near.mean()} if away.size else {}
        layers.append({"layer": layer, **{key: float(x) for key, x in numbers.items()}})
    return {
        "equal": not num_different and not unread,
        "sentences": len(sentences),
        "different": num_different,
        "first_different": first,
        "more_in_file": len(unread),
        "layers": layers,
    }


def _place(old: Stored, index: int, sentence: FileSentence) -> Any:
    """Where the file has the vectors of a sentence, or None."""
    if sentence.identifier is None and old.numbers:
        return old.numbers.get(index)
    text = key_of(sentence.identifier or " ".join(sentence.tokens))
    # Of a text that is not a valid name, HDF5 files have the number.
    names = (name for name in (text, f"line {index}") if name in old.texts)
    return old.texts.get(next(names, None), old.numbers.get(index))


def _difference(
    old: np.ndarray | None,
    new: np.ndarray,
    tokens: Sequence[str],
    names: Sequence[int | str],
    tolerance: float,
) -> str | None:
    """Describes how the vectors of a sentence differ; None if they are equal."""
    if old is None:
        return "other tokens, or another order: the file does not have the sentence"
    if (old.shape[0], old.shape[2]) != (new.shape[0], new.shape[2]):
        sizes = (f"{layers} layers of {dim} numbers" for layers, _, dim in (old.shape, new.shape))
        return f"other layers or another model: {', not '.join(sizes)}"
    if old.shape != new.shape:
        return f"other tokens: {old.shape[1]} vectors for {len(tokens)} tokens"
    is_equal = np.all(np.abs(old - new) <= tolerance, axis=-1)  # (layer, token), False for NaN
    if is_equal.all():
        return None
    layer, token = np.argwhere(~is_equal)[0]  # the first layer
    where = f"token {token}, {tokens[token]!r}, in layer {names[layer]}"
    if names[layer] == 0:
        where += ", where context has no effect: other tokens, another order or another model"
    return where


def _with_layers(vectors: np.ndarray) -> np.ndarray:
    """One layer, or one vector of a sentence, as float32 (layer, token, feature)."""
    return np.asarray(vectors, np.float32)[(None,) * (3 - vectors.ndim)]


def layer_0_vectors(bilm: BiLM, words: Sequence[str]) -> Iterator[np.ndarray]:
    """Yields the vectors of words without context: layer 0, float32 (projection_dim,)."""
    for start in range(0, len(words), _WORDS_AT_ONCE):
        vectors = bilm.token_embeddings(list(words[start : start + _WORDS_AT_ONCE]))
        yield from np.asarray(vectors, np.float32)


def mean_vectors(
    embedder: Embedder, sentences: Iterable[Sequence[str]], words: Sequence[str]
) -> np.ndarray:
    """Means of the contextual vectors of each of the distinct words over its occurrences.

    `embedder` returns one vector per token; `sentences` are lists of tokens. Returns float32 (word,
    feature); zeros for a word that does not occur.
    """
    rows = {word: row for row, word in enumerate(words)}
    sums = np.zeros((len(words), embedder.dim))  # float64: words may occur millions of times
    counts = np.zeros(len(words), np.int64)
    sentences, embedded = itertools.tee(sentences)
    for tokens, vectors in zip(sentences, embedder.embed(embedded), strict=True):
        for token, vector in zip(tokens, vectors, strict=True):
            row = rows.get(token)
            if row is not None:
                sums[row] += vector
                counts[row] += 1
    return (sums / np.maximum(counts, 1)[:, np.newaxis]).astype(np.float32)


def write_word_vectors(
    path: str | os.PathLike, words: Sequence[str], vectors: Iterable[np.ndarray], dim: int
) -> None:
    """Writes a file of word2vec's text format, compressed if its name ends in `.gz`."""
    with atomic_file(path) as part, open_bytes(part, "wb") as file:
        file.write(f"{len(words)} {dim}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = " ".join(f"{value:.6g}" for value in vector)
            file.write(encode(word) + f" {numbers}\n".encode())
