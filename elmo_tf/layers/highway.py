"""CharCNN ─► HighwayStack: gated layers that can pass their input."""

import itertools

import keras
from keras import ops

from elmo_tf.layers.weights import set_attributes


@keras.saving.register_keras_serializable(package="elmo_tf")
class HighwayStack(keras.layers.Layer):
    """A stack of highway layers.

    `g = sigmoid(x · W_carry + b_carry)`,
    `y = g · relu(x · W_transform + b_transform) + (1 - g) · x`

    The name "carry" is from the published files; `g` is the transform gate. `b_carry` is
    initialized to -2, so that a new layer passes most of its input.

    Args:
        num_layers: int >= 0. Defaults to 2, as published.

    Call arguments:
        inputs: float (…, feature).

    Returns:
        float (…, feature). A mask passes unchanged.

    Raises:
        ValueError: `num_layers` is below 0, or the width of `inputs` is unknown.

    Source: Srivastava et al. 2015; Peters et al. 2018, section 3.4.
    """

    def __init__(self, num_layers: int = 2, **kwargs):
        super().__init__(**kwargs)
        if num_layers < 0:
            raise ValueError(f"`num_layers` must be at least 0. Received: {num_layers}")
        self.num_layers = num_layers
        self.supports_masking = True

    def build(self, input_shape):
        dim = input_shape[-1]
        self.kernels, self.biases = [], []  # of the carry and the transform gate of each layer
        gates = ("carry", -2.0), ("transform", 0.0)
        for index, (gate, bias) in itertools.product(range(self.num_layers), gates):
            # One initializer per kernel: a shared one would draw the same numbers for all.
            normal = keras.initializers.VarianceScaling(1.0, "fan_in", "untruncated_normal")
            constant = keras.initializers.Constant(bias)
            self.kernels.append(self.add_weight((dim, dim), normal, name=f"{gate}_kernel_{index}"))
            self.biases.append(self.add_weight((dim,), constant, name=f"{gate}_bias_{index}"))
        set_attributes(self, "kernels", self.kernels)
        set_attributes(self, "biases", self.biases)

    def call(self, inputs):
        outputs = inputs
        gates = list(zip(self.kernels, self.biases, strict=True))
        for carry, transform in zip(gates[::2], gates[1::2], strict=True):
            gate = ops.sigmoid(ops.matmul(outputs, carry[0]) + carry[1])
            transformed = ops.relu(ops.matmul(outputs, transform[0]) + transform[1])
            outputs = gate * transformed + (1 - gate) * outputs
        return outputs

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "num_layers": self.num_layers}
