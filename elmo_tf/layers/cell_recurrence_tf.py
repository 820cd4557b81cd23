"""The time loop of any cell on TensorFlow, with a custom gradient.

Tests check that outputs and gradients equal those of `keras.ops.scan` over the same cell.
"""

from typing import Any

import tensorflow as tf

from elmo_tf.layers.cells import Cell
from elmo_tf.layers.custom_gradient_tf import custom_gradient
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
    diagonal: one vector-Jacobian product per state, for all tokens at once, computes all of it, and
    the backward loop needs only a few multiplications and the product with the transposed kernel.

    Args:
        cell: the cell.
        x: float (token, batch, input blocks · units). The products with the inputs.
        initial_state: `(h,)` or `(h, c)`, each (batch, units).
        kernel: float (units, state blocks · units).
        bias: float (state blocks · units,) or None.
        mask: bool (token, batch, 1) or None. Masked tokens do not change the state.
        dropout_mask: float (batch, units) or None. Recurrent dropout.
        training: whether a gradient will be computed.

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

    @custom_gradient
    def run(*arguments):
        states, activations = _forward(cell, *unpacked(*arguments), mask, dropout_mask)

        def gradient(upstream):
            gradients = _backward(
                cell, upstream, states, activations, *unpacked(*arguments), mask, dropout_mask
            )
            return [tf.cast(g, a.dtype) for g, a in zip(gradients, arguments, strict=True)]

        return stacked(states[0]), gradient

    # For variables, `tf.custom_gradient` would require a gradient function of another form.
    return tf.ensure_shape(run(*map(tf.identity, arguments)), (*x.shape[:2], kernel.shape[0]))


def _forward(cell, x, kernel, initial_state, bias, mask, dropout_mask):
    """Returns the states after each token and the activations `a` of each, as `scan` does."""
    dtype, wide = x.dtype, at_least_32_bits(x.dtype)

    def step(state, x, real=None):
        h = state[0]
        a = tf.matmul(h if cell.drops_output else _times(h, dropout_mask), kernel)
        a = tf.cast(a if bias is None else a + bias, wide)
        x = tf.split(tf.cast(x, wide), cell.num_input_blocks, axis=-1)
        blocks = tf.split(a, cell.num_state_blocks, axis=-1)
        new = _new_states(cell, x, blocks, (tf.cast(h, wide), *state[1:]))
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
    units, num_states, num_blocks = kernel.shape[0], len(states), cell.num_state_blocks
    x = tf.split(tf.cast(x, wide), cell.num_input_blocks, axis=-1)
    activations = tf.split(stacked(activations), num_blocks, axis=-1)
    before = [
        tf.cast(stacked(shifted(first, state)), wide)
        for first, state in zip(initial_state, states, strict=True)
    ]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, activations, before])
        after = _new_states(cell, x, activations, before)
    jacobian = [
        _of_new_state(cell, number, tape.gradient(new, [*activations, *before]), mask, dropout_mask)
        for number, new in enumerate(after)
    ]
    backward_kernel = transposed(kernel)

    def step(of_new, upstream, *jacobian):
        """The gradients of the states before a token from those after it."""
        of_new = (of_new[0] + tf.cast(upstream, wide), *of_new[1:])
        total = tf.add_n(
            [
                each * tf.tile(gradient, [1, num_blocks + num_states])
                for each, gradient in zip(jacobian, of_new, strict=True)
            ]
        )
        of_activations, *old = tf.split(total, [num_blocks * units, *[units] * num_states], axis=-1)
        product = tf.cast(tf.matmul(tf.cast(of_activations, dtype), backward_kernel), wide)
        old[0] += product if cell.drops_output else _times(product, dropout_mask)
        return tuple(old), (*of_new, of_activations)

    zeros = tuple(tf.zeros_like(state, wide) for state in initial_state)
    specs = [tf.TensorSpec(state.shape, wide) for state in initial_state]
    specs.append(tf.TensorSpec((x[0].shape[1], num_blocks * units), wide))
    lists, of_initial = scan(step, [upstream, *jacobian], zeros, specs, reverse=True)
    *of_new, of_activations = map(stacked, lists)
    if mask is not None:
        of_new = [tf.where(mask, gradient, 0.0) for gradient in of_new]
    if cell.drops_output:
        of_new[0] = _times(of_new[0], dropout_mask)
    of_x = tf.concat(tape.gradient(after, x, of_new), axis=-1)
    h = before[0] if cell.drops_output else _times(before[0], dropout_mask)
    left, right = (tf.cast(flat(each), dtype) for each in (h, of_activations))
    of_bias = [] if bias is None else [tf.reduce_sum(of_activations, axis=(0, 1))]
    return [of_x, tf.matmul(left, right, transpose_a=True), *of_initial, *of_bias]


def _of_new_state(cell, number, derivatives, mask, dropout_mask):
    """The derivatives of a new state with respect to the activations and old states, concatenated.

    Args:
        number: index of the new state.
        derivatives: of the cell with respect to each block of the activations and each old state,
            float (token, batch, units), or None for 0.
    """
    zeros = tf.zeros_like(next(each for each in derivatives if each is not None))
    joint = tf.concat([zeros if each is None else each for each in derivatives], axis=-1)
    num_parts, units = len(derivatives), zeros.shape[-1]
    if cell.drops_output and number == 0 and dropout_mask is not None:
        joint *= tf.cast(tf.tile(dropout_mask, [1, num_parts]), joint.dtype)
    if mask is None:
        return joint
    # Masked tokens do not change the state.
    unchanged = tf.one_hot(cell.num_state_blocks + number, num_parts, dtype=joint.dtype)
    return tf.where(mask, joint, tf.repeat(unchanged, units))


def _new_states(cell: Cell, x: list, a: list, states: Any) -> tuple:
    """`cell.step` with the states `(h,)` or `(h, c)`."""
    h, c = cell.step(x, a, *states, *([] if cell.has_cell_state else [None]))
    return (h, c) if cell.has_cell_state else (h,)


def _times(values: tf.Tensor, dropout_mask: tf.Tensor | None) -> tf.Tensor:
    return values if dropout_mask is None else values * tf.cast(dropout_mask, values.dtype)
