import keras
import numpy as np
import pytest

from elmo_tf.layers import MeanOverTokens

VECTORS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
MASK = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)


def test_the_mean_is_over_real_tokens_and_zero_without_any():
    means = MeanOverTokens()(VECTORS, mask=MASK)

    expected = [VECTORS[0, :2].mean(axis=0), np.zeros(5), VECTORS[2].mean(axis=0)]
    np.testing.assert_allclose(means, expected, atol=1e-6)
    np.testing.assert_allclose(MeanOverTokens()(VECTORS), VECTORS.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("read_eagerly", [True, False])
def test_the_mask_comes_from_the_layer_below(keras_round_trip, read_eagerly):
    model = keras.Sequential([keras.Input((4, 5)), keras.layers.Masking(), MeanOverTokens()])
    model = keras_round_trip(model)
    vectors = VECTORS * MASK[..., None]

    means = model(vectors) if read_eagerly else model.predict(vectors, verbose=0)

    np.testing.assert_allclose(means, MeanOverTokens()(vectors, mask=MASK), atol=1e-6)
    assert model.output_shape == (None, 5)
