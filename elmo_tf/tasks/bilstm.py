"""A bidirectional LSTM layer for task models."""

import keras
from keras import ops

from elmo_tf.layers.projected_lstm import ProjectedLSTM


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLSTM(keras.layers.Layer):
    """A bidirectional LSTM without projection or clipping.

    Equivalent to `keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))`, but
    faster to train on CPUs. It can also be used several times in a saved model, where Keras'
    wrapper may confuse the weights.

    Args:
        units: int >= 1. Width of each direction.

    Call arguments:
        sequences: float (batch, token, feature).
        mask: bool (batch, token) or None. True = a real token. Defaults to None, all real.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, 2 · units): forward, then backward; zeros at masked tokens.

    Raises:
        ValueError: `units` is below 1.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.units = units
        self.forward = ProjectedLSTM(units, dtype=dtype, name="forward")
        self.backward = ProjectedLSTM(units, go_backwards=True, dtype=dtype, name="backward")
        self.supports_masking = True

    def build(self, input_shape):
        self.forward.build(input_shape)
        self.backward.build(input_shape)

    def call(self, sequences, mask=None, training=False):
        forward = self.forward(sequences, mask=mask, training=training)
        backward = self.backward(sequences, mask=mask, training=training)
        return ops.concatenate([forward, ops.flip(backward, axis=1)], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
