"""Vectors of a word's occurrences ─► the middles of groups of like ones, likely its meanings."""

import numpy as np

from elmo_tf.extras import require_extra


def group_middles(vectors: np.ndarray, count: int) -> list[int]:
    """The rows in the middles of groups of like vectors, that of the largest group first.

    Args:
        vectors: float32 (row, feature), of length 1.
        count: int >= 1. Groups at most.
    """
    count = min(count, len(vectors))
    faiss = require_extra("faiss", "analysis", "An index of occurrences")
    means = faiss.Kmeans(
        vectors.shape[1],
        count,
        niter=20,
        nredo=3,
        seed=0,
        spherical=True,
        min_points_per_centroid=1,
    )
    means.train(vectors)
    groups = means.index.search(vectors, 1)[1][:, 0]
    similarities = vectors @ means.centroids.T  # (row, group)
    sizes = np.bincount(groups, minlength=count)
    largest_first = [group for group in np.argsort(-sizes, kind="stable") if sizes[group]]
    return [
        int(np.where(groups == group, similarities[:, group], -np.inf).argmax())
        for group in largest_first
    ]
