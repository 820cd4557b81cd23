"""token vectors ─► CellRNN: a recurrence of one direction, with one of `CELLS`."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from elmo_tf.config_checks import check_choice, check_int, check_rate
from elmo_tf.layers.cells import CELLS


def block_orthogonal(num_blocks: int) -> Callable:
    """An initializer that makes the rows or columns of each block of columns orthonormal.

    `keras.initializers.Orthogonal` makes the columns of the complete matrix orthonormal instead.

    Args:
        num_blocks: int >= 1. Number of blocks of equal width.

    Source: Saxe et al. 2014; He et al. 2017, section 3.4.
    """

    def draw(shape: Any, dtype: Any = None) -> Any:
        rows, columns = shape
        block = keras.initializers.Orthogonal(seed=keras.random.SeedGenerator())
        return ops.concatenate(
            [block((rows, columns // num_blocks), dtype) for _ in range(num_blocks)], axis=1
        )

    return draw


@keras.saving.register_keras_serializable(package="elmo_tf")
class CellRNN(keras.layers.Layer):
    """A recurrence over a sequence in one direction.

    Args:
        units: int >= 1. Width of the state and the output.
        cell: a name in `elmo_tf.layers.cells.CELLS`: "gru", "highway_lstm" or "coupled_lstm".
        dropout: float, 0 to below 1. Rate of recurrent dropout, with one mask for all tokens of a
            row. It multiplies `h` in `U · h`, or in "highway_lstm" the output and next state `h'`,
            see `Cell`. Defaults to 0.
        go_backwards: bool. Whether to read from the last token to the first. The outputs are in
            token order in both cases. Defaults to False.
        learn_initial_state: bool. Whether the state before the first token is learned instead of
            zero. Defaults to False.

    Call arguments:
        sequences: float (batch, token, feature).
        mask: bool (batch, token) or None. True = a real token. Masked tokens do not change the
            state.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, units); zeros at masked tokens.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        units: int,
        cell: str,
        dropout: float = 0.0,
        go_backwards: bool = False,
        learn_initial_state: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_int(units, "units", ge=1)
        check_choice(cell, "cell", CELLS)
        check_rate(dropout, "dropout")
        self.units = units
        self.cell_name = cell
        self.cell = CELLS[cell]
        self.dropout_rate = dropout
        self.go_backwards = go_backwards
        self.learn_initial_state = learn_initial_state
        # A Dropout layer has a seed that is saved, so that resumed training is exact.
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    def build(self, input_shape):
        num_x, num_a = self.cell.num_input_blocks, self.cell.num_state_blocks
        if self.cell_name == "gru":  # as Clark and Gardner 2018
            of_x = of_a = keras.initializers.TruncatedNormal(stddev=0.05)
        else:
            of_x, of_a = block_orthogonal(num_x), block_orthogonal(num_a)
        self.kernel = self.add_weight(
            name="kernel", shape=(input_shape[-1], num_x * self.units), initializer=of_x
        )
        self.bias = self.add_weight(name="bias", shape=(num_x * self.units,), initializer="zeros")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, num_a * self.units), initializer=of_a
        )
        self.recurrent_bias = None
        if self.cell.has_state_bias:
            self.recurrent_bias = self.add_weight(
                name="recurrent_bias", shape=(num_a * self.units,), initializer="zeros"
            )
        names = ["h", "c"] if self.cell.has_cell_state else ["h"]
        self.initial_state = [
            self.add_weight(name=f"initial_{name}", shape=(self.units,), initializer="zeros")
            for name in names
            if self.learn_initial_state
        ]

    def call(self, sequences, mask=None, training=False):
        sequences = ops.transpose(sequences, (1, 0, 2))  # (token, batch, feature)
        x = ops.matmul(sequences, self.kernel) + self.bias
        num_rows = ops.shape(x)[1]
        dropout_mask = None
        if training and self.dropout_rate:
            ones = ops.ones((num_rows, self.units), self.compute_dtype)
            dropout_mask = self.dropout(ones, training=True)
        if mask is not None:
            mask = ops.transpose(mask)[..., None]  # (token, batch, 1)
        if self.go_backwards:
            x = ops.flip(x, axis=0)
            mask = None if mask is None else ops.flip(mask, axis=0)
        run = plain_recurrence
        if keras.config.backend() == "tensorflow":
            from elmo_tf.layers.cell_recurrence_tf import cell_recurrence as run
        kernel = ops.convert_to_tensor(self.recurrent_kernel)
        bias = None if self.recurrent_bias is None else ops.convert_to_tensor(self.recurrent_bias)
        state = self._initial_states(num_rows)
        h = run(self.cell, x, state, kernel, bias, mask, dropout_mask, training)
        if mask is not None:
            h = ops.where(mask, h, ops.zeros_like(h))
        if self.go_backwards:
            h = ops.flip(h, axis=0)
        return ops.transpose(h, (1, 0, 2))

    def _initial_states(self, num_rows):
        if not self.learn_initial_state:
            zeros = ops.zeros((num_rows, self.units), self.compute_dtype)
            return (zeros, zeros) if self.cell.has_cell_state else (zeros,)
        states = (ops.cast(state, self.compute_dtype) for state in self.initial_state)
        return tuple(ops.broadcast_to(state, (num_rows, self.units)) for state in states)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell_name,
            "dropout": self.dropout_rate,
            "go_backwards": self.go_backwards,
            "learn_initial_state": self.learn_initial_state,
        }


def plain_recurrence(cell, x, initial_state, kernel, bias, mask, dropout_mask, training):
    """`cell_recurrence_tf.cell_recurrence` for other backends than TensorFlow."""
    scale = 1.0 if dropout_mask is None else dropout_mask

    def step(state, token):
        x, real = token
        h, *c = state
        a = ops.matmul(h if cell.drops_output else h * scale, kernel)
        a = a if bias is None else a + bias
        x = ops.split(x, cell.num_input_blocks, axis=-1)
        a = ops.split(a, cell.num_state_blocks, axis=-1)
        new_h, new_c = cell.step(x, a, h, c[0] if c else None)
        new = (new_h * scale if cell.drops_output else new_h, *([new_c] if c else []))
        new = tuple(ops.where(real, n, old) for n, old in zip(new, state, strict=True))
        return new, new  # Keras expects outputs of the state's structure

    if mask is None:
        mask = ops.ones((*ops.shape(x)[:2], 1), "bool")
    return ops.scan(step, initial_state, (x, mask))[1][0]
