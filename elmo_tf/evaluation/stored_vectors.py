"""Vectors in files instead of an `Embedder`: of another model, of an old run, or of words."""

import abc
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.checkpoints.weight_files import open_hdf5
from elmo_tf.embedding.outputs.hdf5_output import SENTENCES
from elmo_tf.extras import require_extra
from elmo_tf.tasks.word_vectors import read_word_vectors
from elmo_tf.text.sentences import encode


class VectorSource(abc.ABC):
    """The part of an `Embedder` that measures use: the layers of sentences.

    Args:
        path: the file or folder.

    Attributes:
        layers: "all".
        precision: "float32".
        num_layers, dim: int. Shape of a token's vectors.
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
        """Yields the layers of each sentence, float32 (layer, token, feature).

        Raises:
            ValueError: a sentence is not in the file, or has another number of tokens there.
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
        path: an HDF5 file with `sentence_to_index`; or a folder of Parquet shards, or one shard,
            see `parquet_schema`.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__(path)
        try:
            if self.path.suffix.lower() == ".parquet":
                shards = ParquetRows(self.path)
                places = ((" ".join(tokens), row) for tokens, row in shards.places("tokens"))
                self._read = shards.read
            else:
                file = open_hdf5(self.path)
                if SENTENCES not in file:
                    raise ValueError(f"the dataset `{SENTENCES}` of all sentences is missing.")
                places = json.loads(file[SENTENCES][0]).items()
                self._read = lambda name: file[name][()]
            self._rows = {_key(text): row for text, row in places}
        except BlockingIOError:
            raise
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise ValueError(f"Cannot read sentences and vectors in {self.path}: {error}") from None
        if not self._rows:
            raise ValueError(f"{self.path} has no sentences.")
        first = self._layers(next(iter(self._rows.values())))
        self.num_layers, _, self.dim = first.shape

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        for tokens in sentences:
            text = _key(" ".join(tokens))
            if text not in self._rows:
                raise ValueError(f"{self.path} has no vectors of the sentence {text[:80]!r}.")
            array = self._layers(self._rows[text])
            if array.shape[1] != len(tokens):
                raise ValueError(
                    f"{self.path} has {array.shape[1]} vectors for the {len(tokens)} tokens of the "
                    f"sentence {text[:80]!r}."
                )
            yield array

    def _layers(self, row: Any) -> np.ndarray:
        """The vectors of a row as (layer, token, feature)."""
        array = self._read(row)
        if array.ndim not in (2, 3):
            raise ValueError(
                f"{self.path} must have one vector per token. Received: an array of shape "
                f"{array.shape}."
            )
        return np.asarray(array if array.ndim == 3 else array[np.newaxis], np.float32)


class ParquetRows:
    """The rows of Parquet shards, see `parquet_schema`.

    Args:
        path: a folder of shards, or one shard.

    Raises:
        OSError, ValueError: the file has another content.
        MissingExtraError: the package pyarrow is not installed.
    """

    def __init__(self, path: Path):
        parquet = require_extra("pyarrow.parquet", "parquet", "Parquet")
        paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        self._files = [parquet.ParquetFile(path) for path in paths]

    def places(self, column: str) -> Iterator[tuple[Any, tuple[int, int, int]]]:
        """Yields the value of a column and the place of each row.

        Raises:
            ValueError: a column is missing.
        """
        for number, file in enumerate(self._files):
            if missing := {column, "shape", "vectors"} - set(file.schema_arrow.names):
                raise ValueError(f"there is no column {', '.join(sorted(missing))}.")
            for group in range(file.num_row_groups):
                values = file.read_row_group(group, [column]).column(column).to_pylist()
                yield from ((value, (number, group, row)) for row, value in enumerate(values))

    def read(self, place: tuple[int, int, int]) -> np.ndarray:
        """The vectors of the row at a place."""
        number, group, row = place
        table = self._group(number, group)
        shape = table.column("shape")[row].as_py()
        return table.column("vectors")[row].values.to_numpy().reshape(shape)

    @functools.lru_cache(maxsize=2)  # noqa: B019 - a source lives as long as its process
    def _group(self, number: int, group: int) -> Any:
        return self._files[number].read_row_group(group, ["shape", "vectors"])


def _key(text: str) -> str:
    """A sentence with single spaces, and with U+FFFD for invalid UTF-8, as in Parquet files."""
    return encode(" ".join(text.split())).decode("utf-8", "replace")


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors along the last axis to length 1, float32; zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)


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
