"""Vectors ─► their means, lengths and cosines."""

import math

import numpy as np


def mean_over_tokens(vectors: np.ndarray) -> np.ndarray:
    """Mean over tokens: float (…, token, feature) → (…, feature); zeros without tokens."""
    return vectors.sum(axis=-2) / max(1, vectors.shape[-2])


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors along the last axis to length 1, float32; zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of each of the n items of `a` and each of the m of `b`, float32 (n, m)."""
    rows = [unit_vectors(items.reshape(len(items), math.prod(items.shape[1:]))) for items in (a, b)]
    sizes = [vectors.shape[1] for vectors in rows]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"`a` and `b` must have vectors of the same size. Received: {sizes[0]} and {sizes[1]} "
            "numbers per sentence."
        )
    return rows[0] @ rows[1].T
