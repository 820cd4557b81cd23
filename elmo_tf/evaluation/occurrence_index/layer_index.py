"""Approximate search among the vectors of one layer, by faiss.

Few vectors are stored in float16 and searched exhaustively. Many vectors are stored in inverted
lists: each is assigned to the nearest k-means centre and takes one byte per number. A search reads
the lists of the nearest centres from disk.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.extras import require_extra

MAX_EXHAUSTIVE = 20_000  # vectors that are searched exhaustively
_MAX_CENTRES = 4_096
# Larger samples do not improve k-means (faiss recommends 39 to 256).
_SAMPLE_PER_CENTRE = 40
_ITERATIONS = 10
# Centres whose lists are read. On 250,000 tokens of 384 numbers, the 20 candidates included each of
# the 5 nearest neighbors with a probability of 99.8 %; with 16 centres, of 99.0 %.
_CENTRES_READ = 64
# Bytes of one file of vectors, which is in memory while it is written.
_PART_BYTES = 2**28


class Part(NamedTuple):
    """A file with the vectors of the tokens `first` to below `end`."""

    name: str
    first: int
    end: int


def sample_size(num_tokens: int) -> int:
    """Returns the number of vectors that `LayerWriter` needs for k-means, which may be 0."""
    if num_tokens <= MAX_EXHAUSTIVE:
        return 0
    return min(num_tokens, _SAMPLE_PER_CENTRE * _num_centres(num_tokens))


class LayerWriter:
    """Writes the vectors of a layer in bounded memory.

    Args:
        folder: directory of the files.
        layer: number of the layer, for the file names.
        dim: width of a vector.
        num_tokens: total number of vectors.
        sample: float32 (token, feature), `sample_size` unit vectors.

    Attributes:
        parts: the files that were written.
    """

    def __init__(self, folder: Path, layer: int, dim: int, num_tokens: int, sample: np.ndarray):
        self._folder = folder
        self._layer = layer
        self._index = _new_index(dim, num_tokens, sample)
        self._tokens_per_part = max(1, _PART_BYTES // dim)
        self.parts: list[Part] = []

    def add(self, vectors: np.ndarray) -> None:
        """Adds the unit vectors of the next tokens, float32 (token, feature)."""
        self._index.add(vectors)
        if self._index.ntotal >= self._tokens_per_part:
            self.close()

    def close(self) -> None:
        """Writes the vectors that are in memory."""
        if not self._index.ntotal:
            return
        first = self.parts[-1].end if self.parts else 0
        name = f"layer_{self._layer}.{len(self.parts):04}.faiss"
        _faiss().write_index(self._index, str(self._folder / name))
        self.parts.append(Part(name, first, first + self._index.ntotal))
        self._index.reset()


class LayerSearch:
    """Finds tokens by their vectors in one layer.

    Args:
        folder: directory of a `LayerWriter`.
        parts: the files that it wrote.

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
        """Finds the tokens with the largest approximate similarities, in descending order.

        Args:
            query: float32 (feature,), a unit vector.
            count: int >= 1. Maximum number of tokens.
            only: sorted token numbers to search among, or None for all.
            without: sorted token numbers to exclude, or None.

        Returns:
            Token numbers.
        """
        found = [self._search(*part, query, count, only, without) for part in self._parts]
        similarities, numbers = map(np.concatenate, zip(*found, strict=True))
        return numbers[np.argsort(-similarities, kind="stable")[:count]]

    def _search(
        self,
        index: Any,
        part: Part,
        query: np.ndarray,
        count: int,
        only: np.ndarray | None,
        without: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Searches one file; returns approximate similarities and token numbers."""
        faiss = _faiss()
        selector = None
        if only is not None:
            selector = faiss.IDSelectorBatch(_within(only, part))
        elif without is not None and len(without):
            selector = faiss.IDSelectorNot(faiss.IDSelectorBatch(_within(without, part)))
        count = min(count, part.end - part.first)
        is_inverted = isinstance(index, faiss.IndexIVF)
        if is_inverted:
            # The given tokens (of one word) may belong to any centre.
            num_read = _CENTRES_READ if only is None else index.nlist
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=num_read)
        else:
            parameters = faiss.SearchParameters(sel=selector)
        similarities, numbers = index.search(query[None], count, params=parameters)
        if numbers[0, -1] < 0 and is_inverted and parameters.nprobe < index.nlist:
            # The lists that were read hold too few.
            parameters.nprobe = index.nlist
            similarities, numbers = index.search(query[None], count, params=parameters)
        is_found = numbers[0] >= 0
        return similarities[0, is_found], numbers[0, is_found] + part.first


def cluster_medoids(vectors: np.ndarray, count: int) -> list[int]:
    """Clusters vectors by k-means, and returns the row nearest to each centre.

    Args:
        vectors: float32 (row, feature), unit vectors.
        count: int >= 1. Maximum number of clusters.

    Returns:
        Rows, in order of decreasing cluster size.
    """
    count = min(count, len(vectors))
    means = _faiss().Kmeans(
        vectors.shape[1],
        count,
        niter=20,
        nredo=3,
        seed=0,
        spherical=True,
        min_points_per_centroid=1,
    )
    means.train(vectors)
    clusters = means.index.search(vectors, 1)[1][:, 0]
    similarities = vectors @ means.centroids.T  # (row, cluster)
    sizes = np.bincount(clusters, minlength=count)
    return [
        int(np.where(clusters == cluster, similarities[:, cluster], -np.inf).argmax())
        for cluster in np.argsort(-sizes, kind="stable")
        if sizes[cluster]
    ]


def _faiss() -> Any:
    return require_extra("faiss", "analysis", "An index of occurrences")


def _num_centres(num_tokens: int) -> int:
    return min(_MAX_CENTRES, int(2 * math.sqrt(num_tokens)))


def _new_index(dim: int, num_tokens: int, sample: np.ndarray) -> Any:
    faiss = _faiss()
    if num_tokens <= MAX_EXHAUSTIVE:
        return faiss.index_factory(dim, "SQfp16", faiss.METRIC_INNER_PRODUCT)
    kind = f"IVF{_num_centres(num_tokens)},SQ8"
    index = faiss.index_factory(dim, kind, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = _ITERATIONS
    index.train(sample)
    return index


def _within(numbers: np.ndarray, part: Part) -> np.ndarray:
    """Selects the token numbers of a part, relative to its first."""
    first, end = np.searchsorted(numbers, [part.first, part.end])
    return (numbers[first:end] - part.first).astype(np.int64)


def _read(file: Path) -> Any:
    faiss = _faiss()
    try:
        return faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        reason = str(error).rpartition("Error: ")[2].strip()
        raise ValueError(f"{file} is damaged: {reason}. Rebuild the index.") from None
