"""Vectors of one layer ─► the tokens whose vectors are most like one, by faiss.

A few vectors are kept in float16, and all of them compared. Of many, each number is one byte: the
difference to the nearest of some centres (k-means); a search reads the lists of the nearest
centres alone, from the disk.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.extras import require_extra

# Vectors up to which all are compared.
MOST_COMPARED = 20_000
_MOST_CENTRES = 4_096
# k-means learns no better from more (faiss's own recommendation is 39 to 256).
_SAMPLE_PER_CENTRE = 40
_ITERATIONS = 10
# Centres whose lists are read. On 250,000 tokens and 384 numbers each, the five nearest were among
# the twenty found with a probability of 99.8 %; with 16 centres, of 99.0 %.
_CENTRES_READ = 64
# Bytes of the vectors of one file, which are in memory while it is made.
_PART_BYTES = 2**28


class Part(NamedTuple):
    """A file of vectors: of those tokens that are numbered from `first` to below `end`."""

    name: str
    first: int
    end: int


def sample_size(num_tokens: int) -> int:
    """Vectors that `LayerWriter` learns from; 0 if it needs none."""
    if num_tokens <= MOST_COMPARED:
        return 0
    return min(num_tokens, _SAMPLE_PER_CENTRE * _num_centres(num_tokens))


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Vectors along the last axis, scaled to length 1; zeros stay zeros. float32."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)


class LayerWriter:
    """Writes the vectors of a layer into files, token by token, in bounded memory.

    Args:
        folder: of the files.
        layer: number of the layer, for their names.
        dim: width of a vector.
        num_tokens: how many will come.
        sample: float32 (token, feature), `sample_size` unit vectors.
    """

    def __init__(self, folder: Path, layer: int, dim: int, num_tokens: int, sample: np.ndarray):
        self._folder = folder
        self._layer = layer
        self._index = _new_index(dim, num_tokens, sample)
        self._tokens_per_part = max(1, _PART_BYTES // dim)
        self.parts: list[Part] = []
        self._first = 0

    def add(self, vectors: np.ndarray) -> None:
        """Takes the vectors of the next tokens, float32 (token, feature), of length 1."""
        self._index.add(vectors)
        if self._index.ntotal >= self._tokens_per_part:
            self.close()

    def close(self) -> None:
        """Writes what is in memory."""
        if not self._index.ntotal:
            return
        faiss = _faiss()
        end = self._first + self._index.ntotal
        part = Part(f"layer_{self._layer}.{len(self.parts):04}.faiss", self._first, end)
        faiss.write_index(self._index, str(self._folder / part.name))
        self.parts.append(part)
        self._first = end
        self._index.reset()


class LayerSearch:
    """Finds tokens by their vectors in one layer.

    Args:
        folder: where a `LayerWriter` wrote.
        parts: what it wrote.

    Raises:
        ValueError: a file is damaged.
    """

    def __init__(self, folder: Path, parts: Sequence[Part]):
        self._parts = [(_read(folder / part.name), part) for part in parts]

    def nearest(
        self,
        query: np.ndarray,
        count: int,
        only: np.ndarray | None = None,
        without: np.ndarray | None = None,
    ) -> np.ndarray:
        """Numbers of tokens, those that seem nearest first.

        Args:
            query: float32 (feature,), of length 1.
            count: int >= 1. How many; fewer come if there are fewer.
            only, without: numbers, in order, of those tokens that alone may come, or may not.
        """
        found = [self._of_part(*part, query, count, only, without) for part in self._parts]
        similarities, numbers = map(np.concatenate, zip(*found, strict=True))
        order = np.argsort(-similarities, kind="stable")[:count]
        return numbers[order]

    def _of_part(
        self,
        index: Any,
        part: Part,
        query: np.ndarray,
        count: int,
        only: np.ndarray | None,
        without: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Similarities as the stored numbers tell them, and numbers of tokens."""
        faiss = _faiss()
        selector = None
        if only is not None:
            selector = faiss.IDSelectorBatch(_within(only, part))
        elif without is not None and len(without):
            selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(_within(without, part)))
        count = min(count, part.end - part.first)
        if isinstance(index, faiss.IndexIVF):
            # A word's own occurrences may be near any centre.
            num_read = _CENTRES_READ if only is None else index.nlist
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=num_read)
        else:
            parameters = faiss.SearchParameters(sel=selector)
        similarities, numbers = index.search(query[None], count, params=parameters)
        if numbers[0, -1] < 0 and isinstance(index, faiss.IndexIVF):  # too few near those centres
            parameters.nprobe = index.nlist
            similarities, numbers = index.search(query[None], count, params=parameters)
        is_found = numbers[0] >= 0
        return similarities[0, is_found], numbers[0, is_found] + part.first


def _faiss() -> Any:
    return require_extra("faiss", "analysis", "An index of occurrences")


def _num_centres(num_tokens: int) -> int:
    return min(_MOST_CENTRES, int(2 * math.sqrt(num_tokens)))


def _new_index(dim: int, num_tokens: int, sample: np.ndarray) -> Any:
    faiss = _faiss()
    if num_tokens <= MOST_COMPARED:
        return faiss.index_factory(dim, "SQfp16", faiss.METRIC_INNER_PRODUCT)
    kind = f"IVF{_num_centres(num_tokens)},SQ8"
    index = faiss.index_factory(dim, kind, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = _ITERATIONS
    index.train(sample)
    return index


def _within(numbers: np.ndarray, part: Part) -> np.ndarray:
    """Those of a part, counted from its first."""
    first, end = np.searchsorted(numbers, [part.first, part.end])
    return (numbers[first:end] - part.first).astype(np.int64)


def _read(file: Path) -> Any:
    faiss = _faiss()
    try:
        return faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        reason = str(error).rpartition("Error: ")[2].strip()
        raise ValueError(f"{file} is damaged: {reason}. Build the index anew.") from None
