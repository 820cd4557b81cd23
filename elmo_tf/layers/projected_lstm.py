"""token vectors ─► ProjectedLSTM: an LSTM with a projected output."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="elmo_tf")
class ProjectedLSTMCell(keras.layers.Layer):
    """One step of an LSTM with projection and clipping.

    `i, j, f, o = split(x · W + h · R + b)`,
    `c' = clip(sigmoid(f + 1) · c + sigmoid(i) · tanh(j), ± cell_clip)`,
    `h' = clip((sigmoid(o) · tanh(c')) · P, ± proj_clip)`

    The forget bias 1 is not part of `b`. If `projection_dim` is None or equals `units`, there is no
    `P` and `h'` is not clipped.

    Args:
        units: int >= 1. Width of the cell state.
        projection_dim: int, 1 to `units`, or None. Width of the output.
        cell_clip: float > 0 or None. The cell state is clipped to ± this value.
        proj_clip: float > 0 or None. The projected output is clipped to ± this value.

    Call arguments:
        inputs: float (batch, feature).
        states: `[h, c]`, float (batch, projection_dim) and (batch, units).

    Returns:
        `h'`, float (batch, projection_dim), and the new states `[h', c']`.

    Raises:
        ValueError: an argument is out of range.

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
        if units < 1:
            raise ValueError(f"`units` must be at least 1. Received: {units}")
        if projection_dim is not None and not 1 <= projection_dim <= units:
            raise ValueError(
                f"`projection_dim` must be between 1 and `units` ({units}). "
                f"Received: {projection_dim}"
            )
        for name, clip in (("cell_clip", cell_clip), ("proj_clip", proj_clip)):
            if clip is not None and clip <= 0:
                raise ValueError(f"`{name}` must be above 0 or None. Received: {clip}")
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
        """Whether there is a projection matrix `P`."""
        return self.output_size != self.units

    def build(self, input_shape):
        gates = 4 * self.units
        # As in the original, Glorot's limit is that of W and R stacked as one matrix.
        limit = (6.0 / (input_shape[-1] + self.output_size + gates)) ** 0.5
        glorot = keras.initializers.RandomUniform
        kernel = ((input_shape[-1], gates), glorot(-limit, limit))
        self.kernel = self.add_weight(*kernel, name="kernel")
        kernel = ((self.output_size, gates), glorot(-limit, limit))
        self.recurrent_kernel = self.add_weight(*kernel, name="recurrent_kernel")
        self.bias = self.add_weight((gates,), "zeros", name="bias")
        self.projection_kernel = None
        if self.has_projection:
            shape = (self.units, self.output_size)
            self.projection_kernel = self.add_weight(
                shape, "glorot_uniform", name="projection_kernel"
            )

    def call(self, inputs, states):
        h, c = states
        gates = ops.matmul(inputs, self.kernel) + self.bias + ops.matmul(h, self.recurrent_kernel)
        i, j, f, o = ops.split(gates, 4, axis=-1)
        c = ops.sigmoid(f + 1.0) * c + ops.sigmoid(i) * ops.tanh(j)
        if self.cell_clip is not None:
            c = ops.clip(c, -self.cell_clip, self.cell_clip)
        h = ops.sigmoid(o) * ops.tanh(c)
        if self.has_projection:
            h = ops.matmul(h, self.projection_kernel)
            if self.proj_clip is not None:
                h = ops.clip(h, -self.proj_clip, self.proj_clip)
        return h, [h, c]

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
    """An LSTM with projection and clipping over a sequence; see `ProjectedLSTMCell`.

    The layer behaves like `keras.layers.LSTM`: it accepts `return_state`, `go_backwards`,
    `stateful` and `unroll`, can be wrapped by `keras.layers.Bidirectional`, and with `go_backwards`
    returns the outputs of the last token first. Two defaults differ: `return_sequences` is True,
    and outputs at masked tokens are zero.

    Args:
        units, projection_dim, cell_clip, proj_clip: see `ProjectedLSTMCell`.
        return_sequences: bool. Whether to return the outputs of all tokens or only of the last.
            Defaults to True.

    Call arguments:
        sequences: float (batch, token, feature).
        initial_state: `[h, c]` or None for zeros.
        mask: bool (batch, token) or None. True = a real token. Masked tokens do not change the
            state, so padding at any position does not affect real tokens.

    Returns:
        float (batch, token, projection_dim); with `return_state` also `h` and `c` after the last
        real token.

    Example:
        >>> lstm = elmo_tf.layers.ProjectedLSTM(units=16, projection_dim=4, cell_clip=3)
        >>> tuple(lstm(np.ones((2, 5, 8), np.float32)).shape)
        (2, 5, 4)

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
        sizes = units, projection_dim, cell_clip, proj_clip
        shared = {name: kwargs[name] for name in ("dtype", "trainable") if name in kwargs}
        cell = ProjectedLSTMCell(*sizes, name="cell", **shared)
        kwargs.setdefault("zero_output_for_mask", True)
        super().__init__(cell, return_sequences=return_sequences, **kwargs)
        # XLA cannot compile `recurrence` with a mask.
        self.supports_jit = keras.config.backend() != "tensorflow"

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if keras.config.backend() != "tensorflow" or not self.zero_output_for_mask:
            _, outputs, states = super().inner_loop(sequences, initial_state, mask, training)
            # The state `h` replaces Keras's last output, which is zero if the last token is masked.
            return states[0], outputs, states
        # Faster than Keras's loop: the input product of all tokens is a single product.
        from elmo_tf.layers.recurrence_tf import recurrence
        from elmo_tf.layers.recurrence_training_tf import recurrence_for_training

        if self.go_backwards:
            sequences = ops.flip(sequences, axis=1)
            mask = None if mask is None else ops.flip(mask, axis=1)
        sequences = ops.transpose(sequences, (1, 0, 2))  # (token, batch, feature)
        if mask is not None:
            mask = ops.expand_dims(ops.transpose(mask), 2)  # (token, batch, 1)
        initial_state = [ops.cast(part, self.compute_dtype) for part in initial_state]
        run = recurrence_for_training if training else recurrence
        outputs, (h, c) = run(sequences, initial_state, mask, self._cast_weights())
        if mask is not None:
            outputs = ops.where(mask, outputs, ops.zeros_like(outputs))
        return h, ops.transpose(outputs, (1, 0, 2)), [h, c]

    def read_packed(
        self, sequences: Any, starts: Any, first_state: Any, state: Any, few_rows: bool = False
    ) -> tuple:
        """Reads rows that hold several sentences, one after the other; for inference on TensorFlow.

        Args:
            sequences: float (row, token, feature).
            starts: bool (row, token). True at the first token of a sentence; None if no sentence
                begins within the rows.
            first_state: `[h, c]` before each sentence, float (1, projection_dim) and (1, units).
            state: `[h, c]` before the first token of each row, float (row, …).
            few_rows: whether to compute faster for at most 16 rows. Defaults to False.

        Returns:
            float (row, token, projection_dim), and `[h, c]` after the last token of each row.
        """
        from elmo_tf.layers.recurrence_tf import packed_recurrence

        sequences = ops.transpose(sequences, (1, 0, 2))  # (token, row, feature)
        if starts is not None:
            starts = ops.transpose(starts)[:, :, None]  # (token, row, 1)
        weights = self._cast_weights()
        outputs, state = packed_recurrence(sequences, starts, first_state, state, weights, few_rows)
        return ops.transpose(outputs, (1, 0, 2)), state

    def _cast_weights(self) -> Any:
        from elmo_tf.layers.recurrence_tf import LSTMWeights

        cell = self.cell
        weights = (cell.kernel, cell.recurrent_kernel, cell.bias, cell.projection_kernel)
        # Keras casts weights only within a call of the layer.
        weights = [None if w is None else ops.cast(w, self.compute_dtype) for w in weights]
        return LSTMWeights(*weights, cell.cell_clip, cell.proj_clip)

    def get_config(self):
        config = super().get_config()
        del config["cell"]
        names = ("units", "projection_dim", "cell_clip", "proj_clip")
        return {**config, **{name: getattr(self.cell, name) for name in names}}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
