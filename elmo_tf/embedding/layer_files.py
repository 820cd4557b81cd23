"""The layers of sentences ─► one float16 file per layer, of which any part can be read."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from elmo_tf.embedding.outputs.numpy_output import npy_header

_DTYPE = np.dtype(np.float16)
_LARGEST = float(np.finfo(_DTYPE).max)


class LayersShape(NamedTuple):
    """num_layers, including the token vectors; num_tokens of all sentences; dim of a vector."""

    num_layers: int
    num_tokens: int
    dim: int

    @property
    def num_bytes(self) -> int:
        """Size of the vectors on disk."""
        return self.num_layers * self.num_tokens * self.dim * _DTYPE.itemsize


def write_layers(folder: Path, arrays: Iterable[np.ndarray], shape: LayersShape) -> int:
    """Writes `layer_0.npy`, `layer_1.npy`, …, each (token, feature).

    The files have their full size from the start, so that other processes can count it.

    Args:
        folder: a folder without such files.
        arrays: one array per sentence, float (layer, token, feature).
        shape: the size of all arrays together.

    Returns:
        The number of values that were too large for float16 and were clipped to ±65,504.

    Raises:
        ValueError: a vector is not finite.
        OSError: a file cannot be written.
    """
    num_clipped = 0
    with contextlib.ExitStack() as closing:
        files = [
            closing.enter_context(open(path, "xb")) for path in _paths(folder, shape.num_layers)
        ]
        header = npy_header(shape[1:], _DTYPE)
        for file in files:
            file.write(header)
            file.truncate(len(header) + shape.num_bytes // shape.num_layers)
        for number, array in enumerate(arrays):
            largest = np.abs(array).max(initial=0)
            if not np.isfinite(largest):
                raise ValueError(
                    f"Vectors of sentence {number} are not finite (NaN or infinity): the weights "
                    "of the model are damaged or far too large."
                )
            if largest > _LARGEST:
                num_clipped += int(np.count_nonzero(np.abs(array) > _LARGEST))
                array = np.clip(array, -_LARGEST, _LARGEST)
            for file, vectors in zip(files, array.astype(_DTYPE), strict=True):
                file.write(vectors.tobytes())
    return num_clipped


class LayerFiles:
    """Reads the layers of sentences that `write_layers` wrote.

    The files stay readable until `close`, even if the folder is renamed or removed.

    Args:
        folder: the folder of the files.
        lengths: number of tokens per sentence.
        num_layers: number of files.
        dim: width of a vector.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file has another content or size.
    """

    def __init__(self, folder: Path, lengths: Sequence[int], num_layers: int, dim: int):
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        """int64 (sentence + 1,): sentence k has the tokens `offsets[k]` to `offsets[k + 1]`."""
        self.shape = LayersShape(num_layers, int(self.offsets[-1]), dim)
        with contextlib.ExitStack() as closing:
            self._files = [
                closing.enter_context(open(path, "rb")) for path in _paths(folder, num_layers)
            ]
            self._start = len(npy_header(self.shape[1:], _DTYPE))
            for file in self._files:
                _check_file(file, self.shape)
            self._closing = closing.pop_all()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def layer(self, number: int) -> np.ndarray:
        """One layer of all tokens, float16 (token, feature), memory-mapped."""
        shape = self.shape[1:]
        if not self.shape.num_tokens:  # empty files cannot be mapped
            return np.zeros(shape, _DTYPE)
        return np.memmap(self._files[number], _DTYPE, "r", self._start, shape)

    def sentence(self, number: int) -> np.ndarray:
        """All layers of one sentence, float16 (layer, token, feature)."""
        first, end = self.offsets[number : number + 2].tolist()
        row = self.shape.dim * _DTYPE.itemsize
        parts = [
            os.pread(file.fileno(), (end - first) * row, self._start + first * row)
            for file in self._files
        ]
        vectors = np.frombuffer(b"".join(parts), _DTYPE)
        return vectors.reshape(self.shape.num_layers, end - first, self.shape.dim)

    def close(self) -> None:
        """Closes the files. Memory-mapped layers stay valid."""
        self._closing.close()


def _paths(folder: Path, num_layers: int) -> list[Path]:
    return [folder / f"layer_{number}.npy" for number in range(num_layers)]


def _check_file(file: BinaryIO, shape: LayersShape) -> None:
    header = npy_header(shape[1:], _DTYPE)
    # Not parsed, because NumPy raises many kinds of errors for a damaged header.
    if file.read(len(header)) != header:
        raise ValueError(f"{file.name} is not an array of {_DTYPE} {shape[1:]}.")
    size = os.fstat(file.fileno()).st_size
    expected = len(header) + shape.num_bytes // shape.num_layers
    if size != expected:
        raise ValueError(f"{file.name} must have {expected:,} bytes. It has {size:,}.")
