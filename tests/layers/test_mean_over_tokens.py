import numpy as np

from elmo_tf.layers import MeanOverTokens

VECTORS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
MASK = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)


def test_the_mean_is_over_real_tokens_and_zero_without_any():
    means = MeanOverTokens()(VECTORS, mask=MASK)

    expected = [VECTORS[0, :2].mean(axis=0), np.zeros(5), VECTORS[2].mean(axis=0)]
    np.testing.assert_allclose(means, expected, atol=1e-6)
    np.testing.assert_allclose(MeanOverTokens()(VECTORS), VECTORS.mean(axis=1), atol=1e-6)
