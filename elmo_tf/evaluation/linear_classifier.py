"""Vectors ─► classes, by multinomial logistic regression in bounded memory."""

import warnings
from collections.abc import Iterator

import numpy as np

from elmo_tf.evaluation.whitening import Moments, Whitening
from elmo_tf.extras import require_extra
from elmo_tf.threads import num_cores

# Rows of vectors that are in memory beside the matrix to be fitted.
_ROWS = 8192
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
            self._whiten = _whitening(vectors)
            self._model.fit(self._features(vectors), classes)
        late = [one for one in caught if issubclass(one.category, exceptions.ConvergenceWarning)]
        for one in caught:
            if one not in late:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        self.iterations = int(self._model.n_iter_.max())
        self.converged = not late

    def _features(self, vectors: np.ndarray) -> np.ndarray:
        """What the model is fitted on, float32 (example, direction)."""
        features = np.empty((len(vectors), self._whiten.matrix.shape[1]), np.float32)
        for rows in _parts(len(vectors)):
            features[rows] = self._whiten(vectors[rows])
        return features

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """The likeliest class of each vector, (example, feature) → int (example,)."""
        return np.concatenate(
            [self._model.predict(self._whiten(vectors[rows])) for rows in _parts(len(vectors))]
        )


def _whitening(vectors: np.ndarray) -> Whitening:
    moments = Moments(vectors.shape[1])
    for rows in _parts(len(vectors)):
        moments.add(vectors[rows])
    return Whitening(moments)


def _parts(num_rows: int) -> Iterator[slice]:
    """Parts of so many rows, so that little is in memory beside the whole."""
    return (slice(start, start + _ROWS) for start in range(0, num_rows, _ROWS))
