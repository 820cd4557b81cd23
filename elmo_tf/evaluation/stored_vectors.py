"""Vectors in files instead of an `Embedder`: of another model, of an old run, or of words."""

import abc
import contextlib
import functools
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_tf.checkpoints.weight_files import open_hdf5
from elmo_tf.embedding.vector_formats import OFFSETS, SENTENCES
from elmo_tf.extras import require_extra
from elmo_tf.tasks.word_vectors import read_word_vectors
from elmo_tf.text.reading import encode

# The places of sentences, by their indices and their texts; and a function that returns the vectors
# at a place: an array, or a dataset of HDF5, which is read later.
_Stored = tuple[dict[int | str, Any], Callable[[Any], Any]]


class VectorSource(abc.ABC):
    """The part of an `Embedder` that measures use: the layers of sentences.

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

    def check(self, sentences: Iterable[Sequence[str]]) -> None:
        """Raises the errors of `embed` before the vectors are used."""
        for _ in self.embed(sentences):
            pass

    @abc.abstractmethod
    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """Yields the layers of each sentence, float32 (layer, token, feature).

        Raises:
            ValueError: a sentence is not in the file, or has another number of tokens, layers or
                features there.
        """


class WordVectorSource(VectorSource):
    """Static word vectors, as one layer; zeros for words without a vector.

    Attributes:
        vectors: `WordVectors`.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__(path)
        self.vectors = read_word_vectors(path)
        self.num_layers, self.dim = 1, self.vectors.dim

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        default = np.zeros(self.dim, np.float32)
        for tokens in sentences:
            rows = [self.vectors.get(token, default) for token in tokens]
            yield np.array(rows, np.float32).reshape(1, len(rows), self.dim)


class SentenceVectorSource(VectorSource):
    """Vectors of the tokens of sentences, as `elmo-tf embed` and AllenNLP write them.

    Args:
        path: an HDF5 file with `sentence_to_index`, or whose datasets are named by sentences; or a
            folder of Parquet shards, or one shard, as `ParquetOutput` writes them.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__(path)
        with _naming(self.path):
            places, self._read = _stored(self.path)
            self._places = {text: place for text, place in places.items() if isinstance(text, str)}
            if not self._places:
                raise ValueError(f"there are no sentences (`{SENTENCES}`, or the column `tokens`).")
        first = self._read(next(iter(self._places.values())))
        self.num_layers, _, self.dim = self._shape(first)

    def check(self, sentences: Iterable[Sequence[str]]) -> None:
        for tokens in sentences:
            self._vectors(tokens)

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        for tokens in sentences:
            array = np.asarray(self._vectors(tokens), np.float32)
            yield array.reshape(self.num_layers, len(tokens), self.dim)

    def _vectors(self, tokens: Sequence[str]) -> Any:
        """The stored vectors of a sentence, which have the right shape."""
        text = _key(" ".join(tokens))
        if text not in self._places:
            raise ValueError(f"{self.path} has no vectors of the sentence {text[:80]!r}.")
        vectors = self._read(self._places[text])
        layers, count, dim = self._shape(vectors)
        if count != len(tokens):
            raise ValueError(
                f"{self.path} has {count} vectors for the {len(tokens)} tokens of the sentence "
                f"{text[:80]!r}. Embed the same tokens, separated by spaces."
            )
        if (layers, dim) != (self.num_layers, self.dim):
            raise ValueError(
                f"{self.path} has {layers} layers of width {dim} for the sentence {text[:80]!r}, "
                f"and {self.num_layers} of width {self.dim} for its first sentence."
            )
        return vectors

    def _shape(self, vectors: Any) -> tuple[int, ...]:
        """The shape of vectors as (layer, token, feature)."""
        shape = vectors.shape
        if len(shape) not in (2, 3):
            raise ValueError(
                f"{self.path} must have one vector per token. Received: an array of shape {shape}."
            )
        return shape if len(shape) == 3 else (1, *shape)


class OldVectors:
    """A file of vectors, whose keys are the sentences' indices, texts or identifiers.

    Args:
        path: `.npz`, `.npy` or `.parquet`, as written by `elmo-tf embed`. Anything else is HDF5
            with one dataset per sentence, as of `elmo-tf embed`, AllenNLP and ELMoForManyLangs.

    Raises:
        FileNotFoundError: there is no such file.
        BlockingIOError: another process writes it.
        ValueError: it is damaged or of another format.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        if not self._path.exists():
            raise FileNotFoundError(f"There is no file {path}.")
        with _naming(self._path):
            places, self._read = _stored(self._path)
        by_index = {index: place for index, place in places.items() if isinstance(index, int)}
        self._places = by_index or places
        self._unread = set(self._places.values())

    def read(
        self, index: int, tokens: Sequence[str], identifier: str | None = None
    ) -> np.ndarray | None:
        """The vectors of a sentence, float32 (layer, token, feature), or None.

        A single layer has one axis less, and a vector of a sentence is read as one token.
        """
        keys = (index, _key(identifier or " ".join(tokens)), f"line {index}")
        place = next((self._places[key] for key in keys if key in self._places), None)
        with _naming(self._path):
            array = None if place is None else self._read(place)[()]
        if array is None or array.ndim not in (1, 2, 3):
            return None
        self._unread.discard(place)
        return np.asarray(array, np.float32)[(None,) * (3 - array.ndim)]

    @property
    def num_unread(self) -> int:
        """Number of sentences that were not read."""
        return len(self._unread)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Context manager that adds the file name to errors."""
    try:
        yield
    except BlockingIOError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:  # pyarrow's too
        raise ValueError(f"Cannot read vectors in {path}: {error}") from None


def _stored(path: Path) -> _Stored:
    readers = {".npz": _npz, ".npy": _npy, ".parquet": _parquet}
    return readers.get(path.suffix.lower(), _hdf5)(path)


def _hdf5(path: Path) -> _Stored:
    """Datasets named by indices, perhaps with `sentence_to_index`, or named by sentences."""
    file = open_hdf5(path)
    if SENTENCES in file:
        names = {int(name): name for name in file if name != SENTENCES}
        texts = json.loads(file[SENTENCES][0])
        return names | {_key(text): name for text, name in texts.items()}, file.__getitem__
    found: list[str] = []

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found.append(name)

    file.visititems(add)
    # A dataset that is named by its sentence has the number of its line.
    has_lines = any("line" in file[name].attrs for name in found[:1])
    if all(map(str.isdecimal, found)) and not has_lines:
        return {int(name): name for name in found}, file.__getitem__
    # In ELMoForManyLangs, characters are escaped that have a meaning in HDF5 paths.
    escaped = {_key(k.replace("$period$", ".").replace("$backslash$", "/")): k for k in found}
    return escaped | {_key(name): name for name in found}, file.__getitem__


def _npz(path: Path) -> _Stored:
    """One array per sentence."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an .npz archive, or it is incomplete.")
    file = np.load(path)
    is_numbered = all(map(str.isdecimal, file.files))
    names = {int(name) if is_numbered else _key(name): name for name in file.files}
    return names, file.__getitem__


def _npy(path: Path) -> _Stored:
    """One array of all tokens and the offsets of the sentences, or one row per sentence."""
    rows = np.load(path, mmap_mode="r")  # (token, …, feature) or (sentence, …, feature)
    offsets_path = Path(f"{path}{OFFSETS}")
    if not offsets_path.exists():
        return {k: k for k in range(len(rows))}, rows.__getitem__
    offsets = np.load(offsets_path)
    return (
        {k: k for k in range(len(offsets) - 1)},
        lambda k: np.moveaxis(rows[offsets[k] : offsets[k + 1]], 0, -2),
    )


def _parquet(path: Path) -> _Stored:
    """Shards with one row per sentence, see `ParquetOutput`."""
    parquet = require_extra("pyarrow.parquet", "parquet", "Parquet")
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    files = [parquet.ParquetFile(path) for path in paths]
    places: dict[int | str, tuple[int, int, int]] = {}
    for number, file in enumerate(files):
        columns = set(file.schema_arrow.names)
        if missing := {"line", "shape", "vectors"} - columns:
            raise ValueError(f"there is no column {', '.join(sorted(missing))}.")
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, sorted(columns & {"line", "tokens"})).to_pylist()
            for row, sentence in enumerate(table):
                places[sentence["line"]] = number, group, row
                if "tokens" in sentence:
                    places[_key(" ".join(sentence["tokens"]))] = number, group, row

    @functools.lru_cache(maxsize=2)
    def read_group(number: int, group: int) -> Any:
        return files[number].read_row_group(group, ["shape", "vectors"])

    def read(place: tuple[int, int, int]) -> np.ndarray:
        *group, row = place
        table = read_group(*group)
        return table["vectors"][row].values.to_numpy().reshape(table["shape"][row].as_py())

    return places, read


def _key(text: str) -> str:
    """A sentence with single spaces, and with U+FFFD for invalid UTF-8, as in Parquet files."""
    return encode(" ".join(text.split())).decode("utf-8", "replace")


def open_vectors(path: str | os.PathLike) -> VectorSource:
    """Opens a file of vectors, chosen by its suffix.

    Args:
        path: `.hdf5`, `.h5` or `.parquet` (a folder), as `elmo-tf embed` writes them; anything else
            is a file of static word vectors, see `read_word_vectors`.

    Raises:
        FileNotFoundError: there is no such file.
        BlockingIOError: another process writes the file.
        ValueError: the file has another content.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file of vectors {path}.")
    is_embedded = path.suffix.lower() in (".hdf5", ".h5", ".parquet")
    return (SentenceVectorSource if is_embedded else WordVectorSource)(path)
