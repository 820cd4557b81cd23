"""Whitening: a linear map after which features have mean 0 and the identity as covariance."""

import numpy as np

# Relative to the largest variance and to the mean of a feature. Below it are only rounding errors.
_MIN_VARIANCE = _MIN_DEVIATION = 1e-6


class Whitening:
    """`z = A (x - mean)`, with the identity as covariance on the vectors that were added.

    Features are standardized before their correlations are decomposed; otherwise small features
    next to a large one would count as directions without variance, which are left out. Vectors are
    added in parts; then `fit` computes the map.

    Args:
        dim: int. Features of a vector.

    Attributes:
        count: the number of vectors that were added.
        matrix: float32 (feature, direction), the transpose of A.
    """

    def __init__(self, dim: int):
        self._shift = np.zeros(dim, np.float32)
        self._sums = np.zeros(dim)
        self._products = np.zeros((dim, dim))
        self.count = 0

    def add(self, vectors: np.ndarray) -> None:
        """Adds float (example, feature)."""
        if not len(vectors):
            return
        if not self.count:
            # Close to the mean, so that subtracting the mean's products loses little precision.
            self._shift = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        shifted = vectors - self._shift
        self._sums += shifted.sum(axis=0, dtype=np.float64)
        self._products += shifted.T @ shifted
        self.count += len(vectors)

    def fit(self, shrinkage: float = 0.0) -> None:
        """Computes the map from at least one vector.

        `shrinkage`, 0 to 1, is the weight of the identity against the measured correlations, which
        are unreliable if there are few vectors.
        """
        offset = self._sums / self.count
        mean = self._shift + offset
        covariance = self._products / self.count - np.outer(offset, offset)
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0))
        varies = deviations > _MIN_DEVIATION * np.abs(mean)
        scale = np.where(varies, 1 / np.where(varies, deviations, 1), 0)[:, np.newaxis]
        correlations = (1 - shrinkage) * covariance * scale * scale.T
        correlations += shrinkage * np.diag(varies)
        variances, directions = np.linalg.eigh(correlations)  # ascending
        is_kept = variances > _MIN_VARIANCE * variances[-1]
        is_kept[-1] = True  # even if all vectors are equal
        lengths = np.sqrt(np.where(variances > 0, variances, 1)[is_kept])
        self._mean = mean.astype(np.float32)
        self.matrix = (scale * directions[:, is_kept] / lengths).astype(np.float32)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Whitens float (…, feature) to float32 (…, direction)."""
        return (vectors - self._mean) @ self.matrix
