"""The time loop of any cell on TensorFlow, with its own gradient.

Tests check that outputs and gradients equal those of `keras.ops.scan` over the same cell.
"""

from typing import Any

import tensorflow as tf

from elmo_tf.layers.cells import Cell
from elmo_tf.layers.recurrence_tf import at_least_32_bits, flat, scan, stacked
from elmo_tf.layers.recurrence_training_tf import shifted, transposed


def cell_recurrence(
    cell: Cell,
    x: tf.Tensor,
    initial_state: tuple,
    kernel: tf.Tensor,
    bias: tf.Tensor | None,
    mask: tf.Tensor | None,
    dropout_mask: tf.Tensor | None,
    training: bool,
) -> tf.Tensor:
    """Runs a cell over the tokens.

    TensorFlow's gradient of a loop adds a product with the size of `kernel` at every step. Here
    that gradient is one product over all tokens. As a cell is element-wise, its Jacobian is
    diagonal: two vector-Jacobian products of the cell, for all tokens at once, compute all of it,
    and the backward loop needs only a few multiplications by it, and the product with the
    transposed kernel.

    Args:
        cell: the cell.
        x: float (token, batch, input blocks · units). The products with the inputs.
        initial_state: `(h,)` or `(h, c)`, each (batch, units).
        kernel: float (units, state blocks · units).
        bias: float (state blocks · units,) or None.
        mask: bool (token, batch, 1) or None. Masked tokens do not change the state.
        dropout_mask: float (batch, units) or None. Recurrent dropout.
        training: whether there will be a gradient. TensorFlow keeps graphs with a gradient of
            their own for the life of the process.

    Returns:
        `h` after each token, float (token, batch, units), with arbitrary values at masked tokens.
    """
    h, *c = initial_state
    initial_state = [h, *(tf.cast(each, at_least_32_bits(h.dtype)) for each in c)]
    arguments = [x, kernel, *initial_state, *([] if bias is None else [bias])]
    num_states = len(initial_state)

    def unpacked(x, kernel, *rest):
        return x, kernel, rest[:num_states], (*rest[num_states:], None)[0]

    if not training:
        return stacked(_forward(cell, *unpacked(*arguments), mask, dropout_mask)[0][0])

    @tf.custom_gradient
    def run(*arguments):
        states, activations = _forward(cell, *unpacked(*arguments), mask, dropout_mask)

        def gradient(upstream):
            gradients = _backward(
                cell, upstream, states, activations, *unpacked(*arguments), mask, dropout_mask
            )
            return [tf.cast(g, a.dtype) for g, a in zip(gradients, arguments, strict=True)]

        return stacked(states[0]), gradient

    # Of variables, `tf.custom_gradient` would require a gradient function of another form.
    return tf.ensure_shape(run(*map(tf.identity, arguments)), (*x.shape[:2], kernel.shape[0]))


def _forward(cell, x, kernel, initial_state, bias, mask, dropout_mask):
    """Returns the states after each token and the activations `a` of each, as `scan` does."""
    dtype, wide = x.dtype, at_least_32_bits(x.dtype)

    def step(state, x, real=None):
        h = state[0]
        a = tf.matmul(h if cell.drops_output else _times(h, dropout_mask), kernel)
        a = tf.cast(a if bias is None else a + bias, wide)
        new = _step(cell, tf.cast(x, wide), a, (tf.cast(h, wide), *state[1:]))
        if cell.drops_output:
            new = (_times(new[0], dropout_mask), *new[1:])
        new = (tf.cast(new[0], dtype), *new[1:])
        if real is not None:
            new = tuple(tf.where(real, n, old) for n, old in zip(new, state, strict=True))
        return new, (*new, a)

    specs = [tf.TensorSpec(state.shape, state.dtype) for state in initial_state]
    specs.append(tf.TensorSpec((x.shape[1], kernel.shape[1]), wide))
    sequences = [x] if mask is None else [x, mask]
    (*states, activations), _ = scan(step, sequences, tuple(initial_state), specs)
    return states, activations


def _backward(
    cell, upstream, states, activations, x, kernel, initial_state, bias, mask, dropout_mask
):
    """Returns the gradients of x, the kernel, the initial state and, if there is one, the bias."""
    dtype, wide = x.dtype, at_least_32_bits(x.dtype)
    units, num_states = kernel.shape[0], len(states)
    num_x, num_a = cell.num_input_blocks, cell.num_state_blocks
    before = [
        tf.cast(stacked(shifted(first, state)), wide)
        for first, state in zip(initial_state, states, strict=True)
    ]
    # jacobian[i]: of the new state i with respect to x, a and the old states, in one array
    # (token, batch, (num_x + num_a + num_states) · units).
    jacobian = _jacobian(cell, tf.cast(x, wide), stacked(activations), before)
    if mask is not None:
        jacobian = [tf.where(mask, each, 0.0) for each in jacobian]
    of_x = [each[..., : num_x * units] for each in jacobian]
    of_rest = [each[..., num_x * units :] for each in jacobian]
    backward_kernel = transposed(kernel)

    def step(carried, upstream, *tokens):
        """The gradients of the states before a token from those after it."""
        of_rest, real = tokens[:num_states], tokens[num_states:]
        carried = (carried[0] + tf.cast(upstream, wide), *carried[1:])
        of_new = carried
        if cell.drops_output:
            of_new = (_times(carried[0], dropout_mask), *carried[1:])
        total = tf.add_n(
            [j * tf.tile(d, [1, num_a + num_states]) for j, d in zip(of_rest, of_new, strict=True)]
        )
        of_a, *old = tf.split(total, [num_a * units, *[units] * num_states], axis=-1)
        product = tf.cast(tf.matmul(tf.cast(of_a, dtype), backward_kernel), wide)
        old[0] += product if cell.drops_output else _times(product, dropout_mask)
        if real:  # the state passes masked tokens unchanged, and their Jacobian is 0
            old = [o + tf.where(real[0], 0.0, d) for o, d in zip(old, carried, strict=True)]
        return tuple(old), (*of_new, of_a)

    of_state = tf.TensorSpec(initial_state[0].shape, wide)
    specs = [of_state] * num_states
    specs.append(tf.TensorSpec((of_state.shape[0], num_a * units), wide))
    sequences = [upstream, *of_rest] if mask is None else [upstream, *of_rest, mask]
    (*of_new, of_a), of_initial = scan(
        step,
        sequences,
        tuple(tf.zeros_like(s, wide) for s in initial_state),
        specs,
        reverse=True,
    )
    of_new, of_a = [stacked(each) for each in of_new], flat(stacked(of_a))
    of_x = tf.add_n([j * tf.tile(d, [1, 1, num_x]) for j, d in zip(of_x, of_new, strict=True)])
    h = before[0] if cell.drops_output else _times(before[0], dropout_mask)
    of_kernel = tf.matmul(tf.cast(flat(h), dtype), tf.cast(of_a, dtype), transpose_a=True)
    of_bias = [] if bias is None else [tf.reduce_sum(of_a, axis=0)]
    return [of_x, of_kernel, *of_initial, *of_bias]


def _step(cell: Cell, x: tf.Tensor, a: tf.Tensor, states: Any) -> tuple:
    """`cell.step` on joint blocks: the new `(h,)` or `(h, c)`."""
    x = tf.split(x, cell.num_input_blocks, axis=-1)
    a = tf.split(a, cell.num_state_blocks, axis=-1)
    h, c = cell.step(x, a, *states, *([] if cell.has_cell_state else [None]))
    return (h, c) if cell.has_cell_state else (h,)


def _jacobian(cell: Cell, x: tf.Tensor, a: tf.Tensor, states: list[tf.Tensor]) -> list[tf.Tensor]:
    """The diagonals of the derivatives of each new state, concatenated over [x, a, states]."""
    sources = [x, a, *states]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        new = _step(cell, x, a, states)
    return [
        tf.concat(tape.gradient(each, sources, unconnected_gradients="zero"), axis=-1)
        for each in new
    ]


def _times(values: tf.Tensor, dropout_mask: tf.Tensor | None) -> tf.Tensor:
    return values if dropout_mask is None else values * tf.cast(dropout_mask, values.dtype)
