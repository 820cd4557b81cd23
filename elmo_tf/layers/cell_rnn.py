"""token vectors ─► CellRNN: a recurrence of task models, with a GRU, highway or coupled-gate LSTM.

A cell is an element-wise function `step(x, a, h, c) -> (h', c')` of the activations of its blocks:
`x = W · x_t + b`, the products with the input, and `a = U · h + b_a`, those with the state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops


class Cell(NamedTuple):
    """A recurrent cell.

    `step` computes `h'` and `c'`, each (…, units). `x` and `a` are lists with one (…, units) tensor
    per block. A GRU has no cell state `c`, which is None, and is the only cell with `b_a`.
    """

    step: Callable[[list, list, Any, Any], tuple[Any, Any]]
    num_input_blocks: int  # of W
    num_state_blocks: int  # of U
    # Whether recurrent dropout multiplies `h'`, and so also the output, or only the `h` in `U · h`.
    drops_output: bool = False


def gru_step(x, a, h, c):
    """A gated recurrent unit that multiplies by the reset gate after the product, as cuDNN does.

    Source: Cho et al. 2014; Clark and Gardner 2018.
    """
    r = ops.sigmoid(x[0] + a[0])
    z = ops.sigmoid(x[1] + a[1])
    n = ops.tanh(x[2] + r * a[2])
    return (1 - z) * n + z * h, c


def highway_lstm_step(x, a, h, c):
    """An LSTM whose gate `t` mixes the output with `k`, a linear function of the input.

    Source: Zhang et al. 2016; He et al. 2017, section 2.1.
    """
    i = ops.sigmoid(x[0] + a[0])
    f = ops.sigmoid(x[1] + a[1] + 1)
    o = ops.sigmoid(x[2] + a[2])
    t = ops.sigmoid(x[3] + a[3])
    j = ops.tanh(x[4] + a[4])
    k = x[5]
    c = f * c + i * j
    return t * o * ops.tanh(c) + (1 - t) * k, c


def coupled_lstm_step(x, a, h, c):
    """An LSTM whose forget gate is 1 minus its input gate.

    Source: Greff et al. 2017; Lee et al. 2017.
    """
    i = ops.sigmoid(x[0] + a[0])
    o = ops.sigmoid(x[1] + a[1])
    j = ops.tanh(x[2] + a[2])
    c = (1 - i) * c + i * j
    return o * ops.tanh(c), c


CELLS = {
    "gru": Cell(gru_step, 3, 3),
    "highway_lstm": Cell(highway_lstm_step, 6, 5, drops_output=True),
    "coupled_lstm": Cell(coupled_lstm_step, 3, 3),
}


def block_orthogonal(num_blocks: int) -> Callable:
    """An initializer that makes the rows or columns of each of `num_blocks` blocks orthonormal.

    `keras.initializers.Orthogonal` makes the columns of the complete matrix orthonormal instead.

    Source: Saxe et al. 2014; He et al. 2017, section 3.4.
    """

    def draw(shape: Any, dtype: Any = None) -> Any:
        block = keras.initializers.Orthogonal(seed=keras.random.SeedGenerator())
        shape = shape[0], shape[1] // num_blocks
        return ops.concatenate([block(shape, dtype) for _ in range(num_blocks)], axis=1)

    return draw


@keras.saving.register_keras_serializable(package="elmo_tf")
class CellRNN(keras.layers.Layer):
    """A recurrence over a sequence in one direction.

    Args:
        units: int >= 1. Width of the state and the output.
        cell: "gru", "highway_lstm" or "coupled_lstm".
        dropout: float, 0 to below 1. Rate of recurrent dropout, with one mask for all tokens of a
            row; see `Cell.drops_output`. Defaults to 0.
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
        if units < 1:
            raise ValueError(f"`units` must be at least 1. Received: {units}")
        if cell not in CELLS:
            raise ValueError(f"`cell` must be one of {', '.join(CELLS)}. Received: {cell!r}")
        self.units = units
        self.cell_name = cell
        self.cell = CELLS[cell]
        self.go_backwards = go_backwards
        self.learn_initial_state = learn_initial_state
        # A Dropout layer has a seed that is saved, so that resumed training is exact.
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.supports_masking = True

    def build(self, input_shape):
        num_x, num_a = self.cell.num_input_blocks, self.cell.num_state_blocks
        is_gru = self.cell_name == "gru"
        if is_gru:  # as Clark and Gardner 2018
            # One per kernel: a shared one would draw the same numbers for both.
            of_x, of_a = (keras.initializers.TruncatedNormal(stddev=0.05) for _ in range(2))
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
        if is_gru:
            self.recurrent_bias = self.add_weight(
                name="recurrent_bias", shape=(num_a * self.units,), initializer="zeros"
            )
        if self.learn_initial_state:  # attributes: TensorFlow does not save the items of lists
            options = {"shape": (self.units,), "initializer": "zeros"}
            self.initial_h = self.add_weight(name="initial_h", **options)
            self.initial_c = None if is_gru else self.add_weight(name="initial_c", **options)

    def call(self, sequences, mask=None, training=False):
        x = ops.matmul(sequences, self.kernel) + self.bias
        num_rows = ops.shape(x)[0]
        dropout_mask = None
        if training and self.dropout.rate:
            ones = ops.ones((num_rows, self.units), self.compute_dtype)
            dropout_mask = self.dropout(ones, training=True)
        # The loop has no weights. Its states and gates are float32 in mixed precision.
        dtype = keras.backend.result_type(x.dtype, "float32")
        step = _Step(self.cell, self.recurrent_kernel, self.recurrent_bias, dropout_mask, dtype)
        loop = keras.layers.RNN(
            step,
            return_sequences=True,
            go_backwards=self.go_backwards,
            zero_output_for_mask=True,
            dtype=dtype,
        )
        initial_state = None  # zeros
        if self.learn_initial_state:
            shape = num_rows, self.units
            initial_state = [
                ops.broadcast_to(ops.convert_to_tensor(state), shape)
                for state in (self.initial_h, self.initial_c)
                if state is not None
            ]
        h = loop(x, initial_state=initial_state, mask=mask, training=training)
        if self.go_backwards:  # the last token comes first
            h = ops.flip(h, axis=1)
        return ops.cast(h, self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell_name,
            "dropout": self.dropout.rate,
            "go_backwards": self.go_backwards,
            "learn_initial_state": self.learn_initial_state,
        }


class _Step:
    """A cell in the form that `keras.layers.RNN` expects; its input is `W · x + b`."""

    def __init__(self, cell, kernel, bias, dropout_mask, dtype):
        self.state_size = [kernel.shape[0]] * (2 if bias is None else 1)  # see `Cell`
        self.compute_dtype = dtype
        self._cell = cell
        self._kernel = ops.convert_to_tensor(kernel)
        self._bias = 0.0 if bias is None else ops.convert_to_tensor(bias)
        self._dropout_mask = dropout_mask

    def call(self, x, states, training=False):
        cell, (h, *c) = self._cell, states
        of_state = h if cell.drops_output else self._dropped(h)
        a = ops.matmul(ops.cast(of_state, self._kernel.dtype), self._kernel) + self._bias
        x = ops.split(x, cell.num_input_blocks, axis=-1)
        a = ops.split(ops.cast(a, h.dtype), cell.num_state_blocks, axis=-1)
        h, c = cell.step(x, a, h, c[0] if c else None)
        if cell.drops_output:
            h = self._dropped(h)
        return h, [h] if c is None else [h, c]

    __call__ = call

    def _dropped(self, h):
        return h if self._dropout_mask is None else h * ops.cast(self._dropout_mask, h.dtype)
