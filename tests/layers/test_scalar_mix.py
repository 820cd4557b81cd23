import keras
import numpy as np
import pytest

from elmo_tf.layers import MeanOverTokens, ScalarMix
from reference import scalar_mix as reference

SHAPE = (2, 3, 5, 4)  # (batch, layer, token, feature)
LAYERS = np.random.default_rng(0).normal(2, 3, SHAPE).astype(np.float32)
MASK = np.array([[True, True, True, False, False], [True, True, True, True, True]])
WEIGHTS, GAMMA = np.array([0.5, -1.0, 2.0]), np.array(1.7)


def layer_of(**kwargs):
    layer = ScalarMix(**kwargs)
    layer.build(SHAPE)
    layer.set_weights([WEIGHTS, GAMMA])
    return layer


def test_mixing_weights_are_the_softmax_and_the_scale():
    weights, scale = layer_of().mixing_weights()

    np.testing.assert_allclose(weights, np.exp(WEIGHTS) / np.exp(WEIGHTS).sum(), rtol=1e-6)
    assert scale == pytest.approx(1.7)
    average = ScalarMix(average=True, dtype="bfloat16")
    average.build(SHAPE)
    np.testing.assert_allclose(average.mixing_weights().weights, [1 / 3] * 3, rtol=0.01)
    assert average.mixing_weights().weights.dtype == np.float32


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, None, 5, 4)])
def test_inputs_need_four_axes_and_a_known_number_of_layers(shape):
    with pytest.raises(ValueError, match=r"\(batch, layer, token, feature\).*Received: shape"):
        ScalarMix().build(shape)


@pytest.mark.parametrize(
    ("dtype", "scale", "atol"),
    [
        ("float32", 1.0, 1e-5),
        *(("mixed_float16", scale, 0.05) for scale in (1000.0, 1e-4)),
        ("mixed_bfloat16", 1.0, 0.05),
    ],
)
def test_layer_norm_equals_the_formula_and_is_computed_in_float32(dtype, scale, atol):
    layers = keras.ops.cast(scale * LAYERS, dtype.removeprefix("mixed_"))

    mixed = layer_of(layer_norm=True, dtype=dtype)(layers, mask=MASK)

    assert mixed.dtype == layers.dtype
    real = np.asarray(keras.ops.cast(layers, "float32")).astype(np.float64)
    expected = reference.scalar_mix(reference.normalized(real, MASK), WEIGHTS, GAMMA)
    mixed = keras.ops.convert_to_numpy(keras.ops.cast(mixed, "float32"))
    np.testing.assert_allclose(mixed, expected, atol=atol)
    assert not mixed[~MASK].any()


def test_the_mean_is_over_real_tokens_and_zero_without_any():
    vectors = LAYERS[:, 0]
    mask = MASK & [[True], [False]]

    means = MeanOverTokens()(vectors, mask=mask)

    expected = [vectors[0, :3].mean(axis=0), np.zeros(4)]
    np.testing.assert_allclose(means, expected, atol=1e-6)
    np.testing.assert_allclose(MeanOverTokens()(vectors), vectors.mean(axis=1), atol=1e-6)
    many = np.full((1, 3000, 1), 50, np.float16)
    assert MeanOverTokens(dtype="float16")(many) == 50
