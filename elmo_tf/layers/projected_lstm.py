"""token vectors ─► ProjectedLSTM: an LSTM whose output is a projection of its wide cell state."""

from typing import Any

import keras
from keras import ops

from elmo_tf.config import LSTMConfig


@keras.saving.register_keras_serializable(package="elmo_tf")
class ProjectedLSTMCell(keras.layers.Layer):
    """One step of an LSTM with projection and clipping.

    `i, j, f, o = split(x · W + h · R + b)`,
    `c' = clip(sigmoid(f + 1) · c + sigmoid(i) · tanh(j), ± cell_clip)`,
    `h' = clip((sigmoid(o) · tanh(c')) · P, ± proj_clip)`

    The 1 that is added to the forget gate is not part of `b`. If `projection_dim` is None or
    equals `units`, there is no `P` and no clipping of `h'`.

    Args:
        units: int >= 1. Width of the cell state.
        projection_dim: int, 1 to `units`, or None. Width of the output.
        cell_clip: float > 0 or None. Bound of the cell state.
        proj_clip: float > 0 or None. Bound of the projected output.

    Call arguments:
        inputs: float (batch, feature).
        states: `[h, c]`, float (batch, projection_dim) and (batch, units).

    Returns:
        `h'`, float (batch, projection_dim), and the new states `[h', c']`.

    Raises:
        ValueError: an argument out of its range.

    Source: Sak et al. 2014; Peters et al. 2018, section 3.1; the published checkpoints.
    """

    def __init__(
        self,
        units: int,
        projection_dim: int | None = None,
        cell_clip: float | None = None,
        proj_clip: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        LSTMConfig(  # checks the values
            dim=units,
            projection_dim=units if projection_dim is None else projection_dim,
            cell_clip=cell_clip,
            proj_clip=proj_clip,
        )
        self.units = units
        self.projection_dim = projection_dim
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return self.units if self.projection_dim is None else self.projection_dim

    @property
    def state_size(self) -> list[int]:
        """Widths of `h` and `c`."""
        return [self.output_size, self.units]

    @property
    def has_projection(self) -> bool:
        """Whether there is a matrix `P`."""
        return self.output_size != self.units

    def build(self, input_shape):
        gates = 4 * self.units
        # As the original draws them: Glorot's bound is that of W and R stacked as one matrix.
        limit = (6.0 / (input_shape[-1] + self.output_size + gates)) ** 0.5
        glorot = keras.initializers.RandomUniform
        self.kernel = self.add_weight(
            name="kernel", shape=(input_shape[-1], gates), initializer=glorot(-limit, limit)
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.output_size, gates),
            initializer=glorot(-limit, limit),
        )
        self.bias = self.add_weight(name="bias", shape=(gates,), initializer="zeros")
        if self.has_projection:
            self.projection_kernel = self.add_weight(
                name="projection_kernel",
                shape=(self.units, self.output_size),
                initializer="glorot_uniform",
            )
        else:
            self.projection_kernel = None

    def call(self, inputs, states):
        h, c = self.step(self.input_product(inputs), *states)
        return h, [h, c]

    def input_product(self, inputs: Any) -> Any:
        """`x · W + b` of (…, feature), as (…, 4 · units): all that does not wait for the state."""
        return ops.matmul(inputs, self.kernel) + self.bias

    def step(self, gates: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """`h'` and `c'` from the input product of one token, (batch, 4 · units), and `h`, `c`."""
        gates = gates + ops.matmul(h, self.recurrent_kernel)
        i, j, f, o = ops.split(gates, 4, axis=-1)
        c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(j)
        if self.cell_clip is not None:
            c = ops.clip(c, -self.cell_clip, self.cell_clip)
        h = ops.sigmoid(o) * ops.tanh(c)
        if self.has_projection:
            h = ops.matmul(h, self.projection_kernel)
            if self.proj_clip is not None:
                h = ops.clip(h, -self.proj_clip, self.proj_clip)
        return h, c

    def get_initial_state(self, batch_size=None):
        return [ops.zeros((batch_size, size), dtype=self.compute_dtype) for size in self.state_size]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "projection_dim": self.projection_dim,
            "cell_clip": self.cell_clip,
            "proj_clip": self.proj_clip,
        }


@keras.saving.register_keras_serializable(package="elmo_tf")
class ProjectedLSTM(keras.layers.RNN):
    """An LSTM with projection and clipping, over a sequence of tokens.

    The equations are those of `ProjectedLSTMCell`. The layer behaves as `keras.layers.LSTM` does:
    it takes the same further arguments (`return_state`, `go_backwards`, `stateful`, `unroll`), can
    be wrapped by `keras.layers.Bidirectional`, and `go_backwards` gives the outputs in the order in
    which they are computed, last token first. Two defaults differ: `return_sequences` is True, and
    outputs at masked tokens are zero.

    Args:
        units: int >= 1. Width of the cell state.
        projection_dim: int, 1 to `units`, or None. Width of the output.
        cell_clip: float > 0 or None. Bound of the cell state.
        proj_clip: float > 0 or None. Bound of the projected output.
        return_sequences: bool. Outputs of all tokens, or of the last alone. Defaults to True.

    Call arguments:
        sequences: float (batch, token, feature).
        initial_state: `[h, c]` or None for zeros.
        mask: bool (batch, token) or None. True = a real token. At a masked token the state stays
            as it is, so that padding, wherever it stands, changes no real token.

    Returns:
        float (batch, token, projection_dim); with `return_state` also `h` and `c` after the last
        real token.

    Source: Sak et al. 2014; Peters et al. 2018, section 3.1; the published checkpoints.
    """

    def __init__(
        self,
        units: int,
        projection_dim: int | None = None,
        cell_clip: float | None = None,
        proj_clip: float | None = None,
        return_sequences: bool = True,
        **kwargs,
    ):
        cell = ProjectedLSTMCell(
            units,
            projection_dim,
            cell_clip,
            proj_clip,
            name="cell",
            dtype=kwargs.get("dtype"),
        )
        kwargs.setdefault("zero_output_for_mask", True)
        super().__init__(cell, return_sequences=return_sequences, **kwargs)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        # Unrolled backwards, Keras zeroes the outputs of the wrong tokens: it reverses no mask.
        unroll = self.unroll and not (self.go_backwards and mask is not None)
        if keras.config.backend() != "tensorflow" or unroll or not self.zero_output_for_mask:
            _, outputs, states = super().inner_loop(sequences, initial_state, mask, training)
            # Keras's last output is zero where the last token is masked.
            return states[0], outputs, states
        # Keras's loop multiplies each token's vector apart; here all are multiplied at once.
        from elmo_tf.layers import recurrence_tf

        cell = self.cell
        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        sequences = ops.transpose(sequences, (1, 0, 2))  # (token, batch, feature)
        if mask is not None:
            mask = ops.transpose(mask)[:, :, None]  # (token, batch, 1)
        weights = (cell.kernel, cell.recurrent_kernel, cell.bias, cell.projection_kernel)
        weights = [None if one is None else ops.convert_to_tensor(one) for one in weights]
        run = recurrence_tf.recurrence_for_training if training else recurrence_tf.recurrence
        outputs, (h, c) = run(
            sequences,
            initial_state,
            mask,
            recurrence_tf.Weights(*weights),
            cell.cell_clip,
            cell.proj_clip,
        )
        if mask is not None:
            outputs = ops.where(mask, outputs, ops.zeros_like(outputs))
        return h, ops.transpose(outputs, (1, 0, 2)), [h, c]

    def get_config(self):
        config = super().get_config()
        config.pop("cell")
        cell = self.cell
        return {
            **config,
            "units": cell.units,
            "projection_dim": cell.projection_dim,
            "cell_clip": cell.cell_clip,
            "proj_clip": cell.proj_clip,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)
