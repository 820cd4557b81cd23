"""Bidirectional recurrences for task models."""

import functools

import keras
from keras import ops

from elmo_tf.config_checks import check_choice
from elmo_tf.layers.cell_rnn import CELLS, CellRNN
from elmo_tf.layers.projected_lstm import ProjectedLSTM


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiRNN(keras.layers.Layer):
    """A bidirectional recurrence.

    Args:
        units: int >= 1. Width of each direction.
        cell: "gru", "highway_lstm" or "coupled_lstm", see `CellRNN`, or "lstm", a plain LSTM.
            Defaults to "lstm".
        dropout, learn_initial_state: see `CellRNN`; not for "lstm". Default to 0 and False.

    Call arguments:
        sequences: float (batch, token, feature).
        mask: bool (batch, token) or None. True = a real token. Defaults to None, all real.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, 2 · units): forward, then backward; zeros at masked tokens.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        units: int,
        cell: str = "lstm",
        dropout: float = 0.0,
        learn_initial_state: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice(cell, "cell", ("lstm", *CELLS))
        if cell == "lstm" and (dropout or learn_initial_state):
            raise ValueError('`dropout` and `learn_initial_state` are not for cell "lstm".')
        self.units = units
        self.cell = cell
        self.dropout_rate = dropout
        self.learn_initial_state = learn_initial_state
        if cell == "lstm":
            new_direction = functools.partial(ProjectedLSTM, units)
        else:
            new_direction = functools.partial(
                CellRNN, units, cell, dropout, learn_initial_state=learn_initial_state
            )
        self.forward, self.backward = (
            new_direction(go_backwards=name == "backward", dtype=self.dtype_policy, name=name)
            for name in ("forward", "backward")
        )
        self.supports_masking = True

    def build(self, input_shape):
        self.forward.build(input_shape)
        self.backward.build(input_shape)

    def call(self, sequences, mask=None, training=False):
        forward = self.forward(sequences, mask=mask, training=training)
        backward = self.backward(sequences, mask=mask, training=training)
        if self.cell == "lstm":  # outputs the last token first
            backward = ops.flip(backward, axis=1)
        return ops.concatenate([forward, backward], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell,
            "dropout": self.dropout_rate,
            "learn_initial_state": self.learn_initial_state,
        }


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLSTM(BiRNN):
    """A bidirectional LSTM without projection or clipping.

    Equivalent to `keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))`, but
    faster to train on CPUs. It can also be used several times in a saved model, where Keras'
    wrapper may confuse the weights.

    Args:
        units: int >= 1. Width of each direction.

    Call arguments, Returns, Raises: see `BiRNN`.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(units, **kwargs)

    def get_config(self):
        return {**keras.layers.Layer.get_config(self), "units": self.units}
