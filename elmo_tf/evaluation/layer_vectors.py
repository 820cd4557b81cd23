"""Helpers for the vectors of single layers, shared by the analyses of this package."""

import numpy as np


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors along the last axis to length 1, float32; zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)
