import numpy as np
import pytest

from elmo_tf.evaluation.whitening import Moments, Whitening

DIM = 5


@pytest.fixture(scope="module")
def vectors():
    """Vectors with correlated features of different scales and with large means."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(400, DIM)) @ rng.normal(size=(DIM, DIM)) * [1, 10, 0.1, 1, 3]
    return (mixed + 100).astype(np.float32)


def moments_of(vectors, *ends):
    moments = Moments(vectors.shape[1])
    for part in np.split(vectors, ends):
        moments.add(part)
    return moments


def test_moments_of_parts_equal_those_of_all_vectors(vectors):
    moments = moments_of(vectors, 7, 7, 300)  # the second part is empty

    assert moments.count == 400
    np.testing.assert_allclose(moments.mean, vectors.mean(0), rtol=1e-6)
    expected = np.cov(vectors.astype(np.float64).T, bias=True)
    np.testing.assert_allclose(moments.covariance, expected, rtol=1e-4, atol=1e-4)


def test_moments_of_float16_vectors_are_accurate(vectors):
    half = (vectors - 100).astype(np.float16)

    expected = np.cov(half.astype(np.float64).T, bias=True)
    np.testing.assert_allclose(moments_of(half, 50).covariance, expected, rtol=1e-4, atol=1e-4)


def test_whitened_vectors_have_zero_mean_and_identity_covariance(vectors):
    white = Whitening(moments_of(vectors))(vectors)

    np.testing.assert_allclose(white.mean(0), np.zeros(DIM), atol=1e-4)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-3)


def test_directions_without_variance_are_left_out(vectors):
    doubled = np.concatenate([vectors, vectors, np.full((400, 1), 7.0, np.float32)], axis=1)

    white = Whitening(moments_of(doubled))(doubled)

    assert white.shape == (400, DIM)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(DIM), atol=1e-3)


def test_equal_vectors_stay_equal_and_finite():
    same = np.full((3, DIM), 2.5, np.float32)

    np.testing.assert_array_equal(Whitening(moments_of(same))(same), np.zeros((3, 1)))


def test_shrinkage_scales_the_correlations(vectors):
    covariance = np.cov(vectors.astype(np.float64).T, bias=True)
    shrunk = covariance / 2 + np.diag(np.diag(covariance)) / 2

    matrix = Whitening(moments_of(vectors), shrinkage=0.5).matrix

    np.testing.assert_allclose(matrix.T @ shrunk @ matrix, np.eye(DIM), atol=1e-3)
