"""Layers of sentences ─► a file of float16 for each, of which only what is asked for is read."""

import contextlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

_DTYPE = np.dtype(np.float16)
_LARGEST = float(np.finfo(_DTYPE).max)


class LayersShape(NamedTuple):
    """The size of what is kept: num_layers with the tokens' own, num_tokens of all sentences."""

    num_layers: int
    num_tokens: int
    dim: int

    @property
    def num_bytes(self) -> int:
        """What the vectors take on disk."""
        return self.num_layers * self.num_tokens * self.dim * _DTYPE.itemsize


def write_layers(folder: Path, arrays: Iterable[np.ndarray], shape: LayersShape) -> int:
    """Writes `layer_0.npy`, `layer_1.npy`, …, each (token, feature).

    The files have their full size from the beginning.

    Args:
        folder: it must not have such files.
        arrays: of the sentences, float (layer, token, feature).
        shape: of all of them together.

    Returns:
        How many numbers were too large for float16. The largest it has, 65,504, stands for them.

    Raises:
        ValueError: a vector holds what is no finite number.
        OSError: a file cannot be written.
    """
    num_clipped = 0
    with contextlib.ExitStack() as closing:
        files = [
            closing.enter_context(open(path, "xb")) for path in _paths(folder, shape.num_layers)
        ]
        header = _header(shape)
        for file in files:
            file.write(header)
            file.truncate(len(header) + shape.num_bytes // shape.num_layers)
        for number, array in enumerate(arrays):
            largest = np.abs(array).max(initial=0)
            if not np.isfinite(largest):
                raise ValueError(
                    f"Vectors of sentence {number} are not finite (NaN or infinity): the model's "
                    "weights are damaged, or far too large."
                )
            if largest > _LARGEST:
                num_clipped += int(np.count_nonzero(np.abs(array) > _LARGEST))
                array = np.clip(array, -_LARGEST, _LARGEST)
            for file, vectors in zip(files, array.astype(_DTYPE), strict=True):
                file.write(vectors.tobytes())
    return num_clipped


class LayerFiles:
    """The layers of sentences in a folder that `write_layers` filled.

    They stay readable when the folder is renamed or removed, until `close`.

    Args:
        folder: with the files.
        lengths: tokens of each sentence.
        num_layers: of the files.
        dim: width of a vector.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is not what it should be, or not as long.
    """

    def __init__(self, folder: Path, lengths: Sequence[int], num_layers: int, dim: int):
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        """int64 (sentence + 1,): sentence k has the tokens from `offsets[k]` to `offsets[k + 1]`"""
        self.shape = LayersShape(num_layers, int(self.offsets[-1]), dim)
        with contextlib.ExitStack() as closing:
            self._files = [
                closing.enter_context(open(path, "rb")) for path in _paths(folder, num_layers)
            ]
            self._start = len(_header(self.shape))
            for file in self._files:
                _check_file(file, self.shape)
            self._closing = closing.pop_all()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def layer(self, number: int) -> np.ndarray:
        """One layer of all tokens, float16 (token, feature), mapped into memory."""
        shape = self.shape[1:]
        if not self.shape.num_tokens:  # nothing cannot be mapped
            return np.zeros(shape, _DTYPE)
        return np.memmap(self._files[number], _DTYPE, "r", self._start, shape)

    def sentence(self, number: int) -> np.ndarray:
        """All layers of one sentence, float16 (layer, token, feature), read from the disk."""
        first, end = self.offsets[number : number + 2].tolist()
        row = self.shape.dim * _DTYPE.itemsize
        parts = [
            os.pread(file.fileno(), (end - first) * row, self._start + first * row)
            for file in self._files
        ]
        vectors = np.frombuffer(b"".join(parts), _DTYPE)
        return vectors.reshape(self.shape.num_layers, end - first, self.shape.dim)

    def close(self) -> None:
        """Ends the reading, but for the layers that were mapped."""
        self._closing.close()


def _paths(folder: Path, num_layers: int) -> list[Path]:
    return [folder / f"layer_{number}.npy" for number in range(num_layers)]


def _header(shape: LayersShape) -> bytes:
    """What stands before the numbers in a file."""
    file = io.BytesIO()
    content = {"descr": _DTYPE.str, "fortran_order": False, "shape": shape[1:]}
    np.lib.format.write_array_header_1_0(file, content)
    return file.getvalue()


def _check_file(file: BinaryIO, shape: LayersShape) -> None:
    header = _header(shape)
    # It is not parsed: there is no end of what a damaged one may raise.
    if file.read(len(header)) != header:
        raise ValueError(f"{file.name} does not begin as {_DTYPE} {shape[1:]}.")
    found, size = os.fstat(file.fileno()).st_size, len(header) + shape.num_bytes // shape.num_layers
    if found != size:
        raise ValueError(f"{file.name} has {found:,} bytes, not {size:,}.")
