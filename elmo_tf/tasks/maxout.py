"""A maxout layer: the maximum of several linear functions."""

import keras
from keras import ops

from elmo_tf.config_checks import check_int

_LEAST = -1e30  # below any output of a layer


@keras.saving.register_keras_serializable(package="elmo_tf")
class Maxout(keras.layers.Layer):
    """The maximum of several linear functions, `max_k (x · W_k + b_k)`.

    Args:
        units: int >= 1. Width of the output.
        num_pieces: int >= 1. Number of linear functions. Defaults to 4.

    Call arguments:
        inputs: float (…, feature).

    Returns:
        float (…, units).

    Raises:
        ValueError: an argument out of its range.

    Source: Goodfellow et al. 2013.
    """

    def __init__(self, units: int, num_pieces: int = 4, **kwargs):
        super().__init__(**kwargs)
        check_int(units, "units", ge=1)
        check_int(num_pieces, "num_pieces", ge=1)
        self.units = units
        self.num_pieces = num_pieces
        self.pieces = keras.layers.Dense(units * num_pieces, dtype=self.dtype_policy, name="pieces")

    def build(self, input_shape):
        self.pieces.build(input_shape)

    def call(self, inputs):
        pieces = self.pieces(inputs)
        shape = (*ops.shape(pieces)[:-1], self.units, self.num_pieces)
        # `initial` allows an empty batch.
        return ops.max(ops.reshape(pieces, shape), axis=-1, initial=_LEAST)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "num_pieces": self.num_pieces}
