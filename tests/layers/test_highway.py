import numpy as np
import pytest

from elmo_tf.layers import HighwayStack
from reference import token_encoder


@pytest.mark.parametrize("num_layers", [0, 1, 3])
def test_equals_the_formula(num_layers):
    layer, rng = HighwayStack(num_layers), np.random.default_rng(0)
    layer.build((None, 5))
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    inputs = rng.normal(size=(2, 3, 5)).astype(np.float32)

    expected = inputs.astype(np.float64)
    for k in range(num_layers):
        expected = token_encoder.highway(
            expected,
            layer.kernels[2 * k].numpy(),
            layer.biases[2 * k].numpy(),
            layer.kernels[2 * k + 1].numpy(),
            layer.biases[2 * k + 1].numpy(),
        )
    np.testing.assert_allclose(layer(inputs), expected, atol=1e-5)


def test_a_new_layer_passes_most_of_its_input():
    layer = HighwayStack(2)
    layer.build((None, 400))

    kernels = [kernel.numpy() for kernel in layer.kernels]
    carry_bias, transform_bias, *_ = layer.biases
    assert (carry_bias.numpy() == -2).all()
    assert not transform_bias.numpy().any()
    for index, kernel in enumerate(kernels):
        assert np.std(kernel) == pytest.approx(1 / 20, rel=0.02)
        assert not any(np.array_equal(kernel, other) for other in kernels[:index])


def test_the_width_must_be_known():
    with pytest.raises(ValueError, match=r"last axis of `inputs` must be known.*\(None, None\)"):
        HighwayStack(1).build((None, None))
