"""Multinomial logistic regression on whitened vectors, in bounded memory."""

import warnings
from collections.abc import Iterator

import numpy as np

from elmo_tf.evaluation.whitening import Moments, Whitening
from elmo_tf.extras import require_extra
from elmo_tf.threads import num_cores

_ROWS_PER_CHUNK = 8192
_PURPOSE = "A linear classifier"


class LinearClassifier:
    """Multinomial logistic regression on whitened features.

    `sum_i -log softmax(W z_i + b)[y_i] + |W|² / (2 c)`, minimized by L-BFGS, where `z_i = A (x_i -
    mean)` has the identity as its covariance on the training data. So the penalty treats all
    directions equally, and L-BFGS needs far fewer iterations than on features that are only
    standardized.

    Args:
        vectors: float (example, feature), to fit on; may be memory-mapped. The whitened copy takes
            4 bytes of memory per number.
        classes: int (example,), with at least two different values.
        c: float > 0. Inverse strength of the penalty.
        max_iterations: int >= 1. Maximum number of L-BFGS iterations.

    Attributes:
        iterations: the number of iterations.
        converged: whether the fit converged within `max_iterations`.
    """

    def __init__(self, vectors: np.ndarray, classes: np.ndarray, c: float, max_iterations: int):
        linear_model = require_extra("sklearn.linear_model", "analysis", _PURPOSE)
        exceptions = require_extra("sklearn.exceptions", "analysis", _PURPOSE)
        threadpoolctl = require_extra("threadpoolctl", "analysis", _PURPOSE)
        self._model = linear_model.LogisticRegression(C=c, max_iter=max_iterations)
        # A matrix with one column per class gains little from a second thread; on a few busy cores,
        # threads that wait for each other are many times slower.
        limit = 1 if num_cores() <= 2 else None
        with warnings.catch_warnings(record=True) as caught, threadpoolctl.threadpool_limits(limit):
            warnings.simplefilter("always", exceptions.ConvergenceWarning)
            moments = Moments(vectors.shape[1])
            for rows in _chunks(len(vectors)):
                moments.add(vectors[rows])
            self._whiten = Whitening(moments)
            self._model.fit(self._features(vectors), classes)
        self.iterations = int(self._model.n_iter_.max())
        self.converged = True
        for one in caught:
            if issubclass(one.category, exceptions.ConvergenceWarning):
                self.converged = False
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)

    def _features(self, vectors: np.ndarray) -> np.ndarray:
        """Whitens the training vectors, float32 (example, direction)."""
        features = np.empty((len(vectors), self._whiten.matrix.shape[1]), np.float32)
        for rows in _chunks(len(vectors)):
            features[rows] = self._whiten(vectors[rows])
        return features

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the most probable class of each vector, (example, feature) → int (example,)."""
        return np.concatenate(
            [self._model.predict(self._whiten(vectors[rows])) for rows in _chunks(len(vectors))]
        )


def _chunks(num_rows: int) -> Iterator[slice]:
    return (slice(first, first + _ROWS_PER_CHUNK) for first in range(0, num_rows, _ROWS_PER_CHUNK))
