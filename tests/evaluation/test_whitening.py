"""Whitened vectors, and the linear classifiers of the probe on them."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from elmo_tf.evaluation import probing
from elmo_tf.evaluation.probing import LinearClassifier
from elmo_tf.evaluation.whitening import Whitening

DIM = 5


@pytest.fixture(scope="module")
def vectors():
    """Vectors with correlated features of different scales and with large means."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(400, DIM)) @ rng.normal(size=(DIM, DIM)) * [1, 1e3, 0.1, 1, 3]
    return (mixed + 100).astype(np.float32)


def whitening_of(vectors, *ends, shrinkage=0.0):
    whitening = Whitening(vectors.shape[1])
    for part in np.split(vectors, ends):
        whitening.add(part)
    assert whitening.count == len(vectors)
    whitening.fit(shrinkage)
    return whitening


def covariance(vectors):
    return np.cov(vectors.astype(np.float64).T, bias=True)


@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 0), (np.float16, 100)])
@pytest.mark.parametrize("ends", [(), (7, 7, 300)])  # in parts, of which the second is empty
def test_whitened_vectors_have_zero_mean_and_identity_covariance(vectors, dtype, shift, ends):
    vectors = (vectors - shift).astype(dtype)

    white = whitening_of(vectors, *ends)(vectors)

    np.testing.assert_allclose(white.mean(0), np.zeros(DIM), atol=1e-4)
    np.testing.assert_allclose(covariance(white), np.eye(DIM), atol=1e-3)


def test_directions_without_variance_are_left_out(vectors):
    doubled = np.concatenate([vectors, vectors, np.full((400, 1), 7.0, np.float32)], axis=1)

    white = whitening_of(doubled)(doubled)

    assert white.shape == (400, DIM)
    np.testing.assert_allclose(covariance(white), np.eye(DIM), atol=1e-3)
    same = np.full((3, DIM), 2.5, np.float32)
    np.testing.assert_array_equal(whitening_of(same)(same), np.zeros((3, 1)))


def test_shrinkage_scales_the_correlations(vectors):
    shrunk = covariance(vectors) / 2 + np.diag(np.diag(covariance(vectors))) / 2

    matrix = whitening_of(vectors, shrinkage=0.5).matrix

    np.testing.assert_allclose(matrix.T @ shrunk @ matrix, np.eye(DIM), atol=1e-3)


MEANS = np.array([[0.0, 1.0], [1.5, -0.5], [-1.0, -1.0]])


def examples(count, seed=0):
    """Points of three overlapping clouds; one feature is 100 times as large as the other."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    points = MEANS[classes] + rng.normal(0, 0.8, (count, 2))
    return (points * [1, 100] + [7, -30]).astype(np.float32), classes


@pytest.mark.parametrize("c", [10.0, 0.01])
def test_the_minimum_is_found_on_decorrelated_features(c, monkeypatch):
    monkeypatch.setattr(probing, "_ROWS_PER_CHUNK", 150)
    points, classes = examples(400)
    others, _ = examples(3000, seed=1)
    mean = points.mean(0, np.float64)
    # All ways to decorrelate differ by a rotation, which does not change the minimum.
    matrix = np.linalg.inv(np.linalg.cholesky(covariance(points))).T
    exact = LogisticRegression(C=c, tol=1e-9, max_iter=4000).fit((points - mean) @ matrix, classes)
    expected = exact.predict((others - mean) @ matrix)

    classifier = LinearClassifier(points, classes, c, max_iterations=100)

    assert classifier.converged
    assert 1 < classifier.iterations < 100
    # Only points between two classes may differ.
    assert (classifier.predict(others) != expected).mean() < 0.01
    stopped = LinearClassifier(points, classes, c, max_iterations=2)
    assert (stopped.iterations, stopped.converged) == (2, False)


def test_features_that_vary_only_by_rounding_are_ignored():
    points, classes = examples(300)
    rounded = np.float32(1000) + np.random.default_rng(2).choice([0, 1e-4], (300, 1))

    classifier = LinearClassifier(np.hstack([points, rounded]), classes, 1.0, 50)

    others, _ = examples(300, seed=1)
    expected = LinearClassifier(points, classes, 1.0, 50).predict(others)
    far = np.hstack([others, np.full((300, 1), 990)])
    np.testing.assert_array_equal(classifier.predict(far), expected)


def test_fewer_vectors_than_features_are_supported():
    vectors = np.random.default_rng(4).normal(size=(10, 50)).astype(np.float16)
    classes = np.array([0, 1, 2, 1, 0] * 2)

    classifier = LinearClassifier(vectors, classes, 1.0, 100)

    assert classifier.predict(vectors).tolist() == classes.tolist()
    assert classifier.converged
