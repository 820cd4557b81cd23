"""Vectors ─► classes, by multinomial logistic regression in bounded memory."""

import warnings
from collections.abc import Iterator

import numpy as np

from elmo_tf.extras import require_extra
from elmo_tf.threads import num_cores

# Rows of vectors that are in memory beside the matrix to be fitted.
_ROWS = 8192
# Below these is what rounding leaves of features, and of directions, that do not vary: of a feature
# as a share of its mean, of a direction as a share of the largest variance.
_LEAST_DEVIATION, _LEAST_VARIANCE = 1e-6, 1e-6
_PURPOSE = "A linear classifier"


class LinearClassifier:
    """Multinomial logistic regression on features without correlation, of mean 0 and deviation 1.

    `sum_i -log softmax(W z_i + b)[y_i] + |W|² / (2 c)`, minimised by L-BFGS, where `z_i = A (x_i -
    mean)` has the identity for its covariance on the training data. So neither scale nor direction
    of the vectors' features matters, and L-BFGS needs far fewer iterations than if each feature
    were merely divided by its deviation.

    Args:
        vectors: float (example, feature), to be fitted on; may be mapped into memory. In memory
            are 4 bytes for each number.
        classes: int (example,), at least two different ones.
        c: float > 0. Inverse strength of the penalty.
        max_iterations: int >= 1. Of L-BFGS.

    Attributes:
        iterations: that it took.
        converged: whether it came to its end before the iterations did.
    """

    def __init__(self, vectors: np.ndarray, classes: np.ndarray, c: float, max_iterations: int):
        linear_model = require_extra("sklearn.linear_model", "analysis", _PURPOSE)
        exceptions = require_extra("sklearn.exceptions", "analysis", _PURPOSE)
        threadpoolctl = require_extra("threadpoolctl", "analysis", _PURPOSE)
        self._model = linear_model.LogisticRegression(C=c, max_iter=max_iterations)
        # A matrix as narrow as there are classes gains little by a second thread; where cores are
        # few and busy, threads that wait for each other take many times as long.
        limit = 1 if num_cores() <= 2 else None
        with warnings.catch_warnings(record=True) as caught, threadpoolctl.threadpool_limits(limit):
            warnings.simplefilter("always", exceptions.ConvergenceWarning)
            self._whiten = _Whitening(vectors)
            self._model.fit(self._whiten(vectors), classes)
        late = [one for one in caught if issubclass(one.category, exceptions.ConvergenceWarning)]
        for one in caught:
            if one not in late:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        self.iterations = int(self._model.n_iter_.max())
        self.converged = not late

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """The likeliest class of each vector, (example, feature) → int (example,)."""
        return np.concatenate(
            [self._model.predict(self._whiten(vectors[rows])) for rows in _parts(len(vectors))]
        )


class _Whitening:
    """Takes mean and covariance out of vectors, (example, feature), as it found them in some.

    Directions in which these do not differ are left out. Features are brought to one scale before,
    so that beside one of large values the others are not taken for such directions.
    """

    def __init__(self, vectors: np.ndarray):
        dim = vectors.shape[1]
        total, products = np.zeros(dim), np.zeros((dim, dim))
        for rows in _parts(len(vectors)):
            total += vectors[rows].sum(0, np.float64)
        self._mean = (total / len(vectors)).astype(np.float32)
        for rows in _parts(len(vectors)):
            centred = vectors[rows] - self._mean
            products += centred.T @ centred
        deviations = np.sqrt(np.diag(products) / len(vectors))
        varies = deviations > _LEAST_DEVIATION * np.abs(self._mean)
        scale = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
        correlations = products / len(vectors) * scale * scale[:, np.newaxis]
        variances, directions = np.linalg.eigh(correlations)  # in rising order
        is_kept = variances > _LEAST_VARIANCE * variances[-1]
        is_kept[-1] = True  # even if all vectors are the same
        lengths = np.sqrt(np.where(variances > 0, variances, 1)[is_kept])
        self._matrix = (scale[:, np.newaxis] * directions[:, is_kept] / lengths).astype(np.float32)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """float32 (example, direction)."""
        features = np.empty((len(vectors), self._matrix.shape[1]), np.float32)
        for rows in _parts(len(vectors)):
            features[rows] = (vectors[rows] - self._mean) @ self._matrix
        return features


def _parts(num_rows: int) -> Iterator[slice]:
    """Parts of so many rows, so that little is in memory beside the whole."""
    return (slice(start, start + _ROWS) for start in range(0, num_rows, _ROWS))
