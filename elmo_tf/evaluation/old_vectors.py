"""The vectors of each sentence in a file of an old pipeline, for `differences`."""

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_tf.checkpoints.weight_files import open_hdf5
from elmo_tf.embedding.outputs.hdf5_output import SENTENCES
from elmo_tf.embedding.outputs.numpy_output import OFFSETS
from elmo_tf.evaluation.stored_vectors import ParquetRows

# The places of sentences, by their numbers or their texts, and a function that reads a place.
_Stored = tuple[dict[int | str, Any], Callable[[Any], np.ndarray]]


class OldVectors:
    """A file of vectors, in which sentences have their numbers from 0 or their texts as keys.

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
        readers = {".npz": _npz, ".npy": _npy, ".parquet": _parquet}
        with self._naming():
            self._places, self._read = readers.get(self._path.suffix.lower(), _hdf5)(self._path)
        self._unread = set(self._places.values())

    def read(self, number: int, tokens: Sequence[str]) -> np.ndarray | None:
        """The vectors of a sentence, float32 (layer, token, feature), or None.

        A single layer has one axis less, and a vector of a sentence is read as one token.
        """
        keys = (number, _key(" ".join(tokens)), f"line {number}")
        place = next((self._places[key] for key in keys if key in self._places), None)
        with self._naming():
            array = None if place is None else self._read(place)
        if array is None or array.ndim not in (1, 2, 3):
            return None
        self._unread.discard(place)
        return np.asarray(array, np.float32)[(None,) * (3 - array.ndim)]

    @property
    def num_unread(self) -> int:
        """Number of sentences that were not read."""
        return len(self._unread)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Context manager that adds the file name to errors."""
        try:
            yield
        except BlockingIOError:
            raise
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"Cannot read vectors in {self._path}: {error}") from None


def _hdf5(path: Path) -> _Stored:
    """Datasets named by numbers, or by sentences."""
    file = open_hdf5(path)
    found: list[str] = []

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and name != SENTENCES:
            found.append(name)

    file.visititems(add)
    # A dataset that is named by its sentence has the number of its line.
    has_lines = any("line" in file[name].attrs for name in found[:1])
    if all(map(str.isdecimal, found)) and not has_lines:
        return {int(name): name for name in found}, lambda name: file[name][()]
    # In ELMoForManyLangs, characters are escaped that have a meaning in HDF5 paths.
    escaped = {_key(k.replace("$period$", ".").replace("$backslash$", "/")): k for k in found}
    return escaped | {_key(name): name for name in found}, lambda name: file[name][()]


def _npz(path: Path) -> _Stored:
    """One array per sentence."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an .npz archive, or it is incomplete.")
    file = np.load(path)
    return {int(name): name for name in file.files}, file.__getitem__


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
    """One row per sentence, with the number of its line."""
    rows = ParquetRows(path)
    return dict(rows.places("line")), rows.read


def _key(text: str) -> str:
    return " ".join(text.split())
