"""Vectors ─► the same without mean and covariance, so that no direction outweighs the others."""

import numpy as np

# As a share of the largest. Below it is what rounding leaves of directions without any variance.
_LEAST_VARIANCE = 1e-6
# As a share of the mean: what rounding leaves of a feature that is always the same.
_LEAST_DEVIATION = 1e-6


class Moments:
    """Mean and covariance of vectors that come in parts.

    Args:
        dim: int. Features of a vector.
    """

    def __init__(self, dim: int):
        self._shift = np.zeros(dim, np.float32)
        self._sums = np.zeros(dim)
        self._products = np.zeros((dim, dim))
        self.count = 0

    def add(self, vectors: np.ndarray) -> None:
        """Takes a part in: float (example, feature)."""
        if not len(vectors):
            return
        if not self.count:
            # Near the mean, so that little is lost when the mean's products are taken out again.
            self._shift = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        shifted = vectors - self._shift
        self._sums += shifted.sum(axis=0, dtype=np.float64)
        self._products += shifted.T @ shifted
        self.count += len(vectors)

    @property
    def mean(self) -> np.ndarray:
        """float64 (feature,)."""
        return self._shift + self._sums / self.count

    @property
    def covariance(self) -> np.ndarray:
        """float64 (feature, feature), divided by the number of vectors."""
        offset = self._sums / self.count
        return self._products / self.count - np.outer(offset, offset)


class Whitening:
    """`z = A (x - mean)`: with the identity for covariance where the moments are those of x.

    Features are brought to one scale before their correlations are decomposed, so that beside one
    of large values the others do not pass for directions without variance. Those are left out.

    Args:
        moments: of one vector at least.
        shrinkage: from 0 to 1. The share that the identity has in the correlations, beside those
            that were found. Where vectors are few, what was found is by chance.
    """

    def __init__(self, moments: Moments, shrinkage: float = 0.0):
        mean, covariance = moments.mean, moments.covariance
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0))
        varies = deviations > _LEAST_DEVIATION * np.abs(mean)
        scale = np.where(varies, 1 / np.where(varies, deviations, 1), 0)[:, np.newaxis]
        correlations = (1 - shrinkage) * covariance * scale * scale.T
        correlations += shrinkage * np.diag(varies)
        variances, directions = np.linalg.eigh(correlations)  # in rising order
        is_kept = variances > _LEAST_VARIANCE * variances[-1]
        is_kept[-1] = True  # even if all vectors are the same
        lengths = np.sqrt(np.where(variances > 0, variances, 1)[is_kept])
        self._mean = mean.astype(np.float32)
        self.matrix = (scale * directions[:, is_kept] / lengths).astype(np.float32)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Whitens float (…, feature) to float32 (…, direction)."""
        return (vectors - self._mean) @ self.matrix
