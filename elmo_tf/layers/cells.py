"""The cells of task models' recurrences: GRU, highway LSTM and coupled-gate LSTM.

A cell is an element-wise function `step(x, a, h, c) -> (h', c')` of the activations of its blocks:
`x = W · x_t + b`, the products with the input, and `a = U · h + b_a`, those with the state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops


class Cell(NamedTuple):
    """A recurrent cell.

    `step` computes `h'` and `c'`, each (…, units). `x` and `a` are lists with one (…, units) tensor
    per block. `c` is None in cells without a cell state.
    """

    step: Callable[[list, list, Any, Any], tuple[Any, Any]]
    num_input_blocks: int  # of W
    num_state_blocks: int  # of U
    has_cell_state: bool = True  # `c`
    has_state_bias: bool = False  # `b_a`
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
    "gru": Cell(gru_step, 3, 3, has_cell_state=False, has_state_bias=True),
    "highway_lstm": Cell(highway_lstm_step, 6, 5, drops_output=True),
    "coupled_lstm": Cell(coupled_lstm_step, 3, 3),
}
