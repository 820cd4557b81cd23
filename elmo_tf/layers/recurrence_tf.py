"""The time loops of `ProjectedLSTM` on TensorFlow, with the input product taken out of them.

The plain form, for every backend, is Keras's own loop over `ProjectedLSTMCell`; a test holds that
all agree, and so do their gradients.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Windows of training are short and of one length: without a loop, small models train faster.
_MOST_UNROLLED = 32


def recurrence(
    step: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    gates: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs `h, c = step(gates_t, h, c)` over the tokens, and keeps nothing but the outputs.

    Args:
        step: one step of the cell.
        gates: float (token, batch, 4 · units), the input product.
        initial_state: `[h, c]`.
        mask: bool (token, batch, 1) or None. At a masked token the state stays as it is.

    Returns:
        `h` after each token, float (token, batch, feature), and the last `[h, c]`.
    """

    def masked_step(state, gates, real=None):
        new_h, new_c = step(gates, *state)
        if real is not None:
            h, c = state
            new_h, new_c = tf.where(real, new_h, h), tf.where(real, new_c, c)
        return (new_h, new_c), new_h

    sequences = [gates] if mask is None else [gates, mask]
    outputs, state = _scan(masked_step, sequences, tuple(initial_state), initial_state[0].shape)
    return outputs, list(state)


def recurrence_for_training(
    gates: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    recurrent_kernel: tf.Tensor,
    projection_kernel: tf.Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The same, with a gradient that multiplies for all tokens at once.

    TensorFlow's own gradient of a loop adds up a (projection_dim, 4 · units) product in every step.
    Here the loop backwards carries only the state's gradient, and both matrices get theirs from one
    product each, over all tokens.

    Args:
        gates, initial_state, mask: see `recurrence`.
        recurrent_kernel: float (projection_dim, 4 · units).
        projection_kernel: float (units, projection_dim) or None.
        cell_clip, proj_clip: see `ProjectedLSTMCell`.

    Returns:
        See `recurrence`.
    """

    @tf.custom_gradient
    def run(gates, h0, c0, recurrent, projection):
        h, c, activations = _forward(
            gates, h0, c0, mask, recurrent, projection, cell_clip, proj_clip
        )
        last_h = tf.concat([h0[tf.newaxis], h], axis=0)[-1]
        last_c = tf.concat([c0[tf.newaxis], c], axis=0)[-1]

        def gradient(grad_h, grad_last_h, grad_last_c):
            return _backward(
                (grad_h, grad_last_h, grad_last_c),
                (h, c, activations),
                (h0, c0, mask, recurrent, projection),
                (cell_clip, proj_clip),
            )

        return (h, last_h, last_c), gradient

    # Variables themselves would be taken for something that the gradient must know by another name.
    recurrent = tf.identity(recurrent_kernel)
    has_projection = projection_kernel is not None
    projection = tf.identity(projection_kernel) if has_projection else tf.zeros((0, 0), gates.dtype)
    h, last_h, last_c = run(gates, *initial_state, recurrent, projection)
    return tf.ensure_shape(h, (gates.shape[0], *last_h.shape)), [last_h, last_c]


def _forward(gates, h0, c0, mask, recurrent, projection, cell_clip, proj_clip):
    """`h`, `c` and the four activations after each token."""
    has_projection = projection.shape[0] != 0

    def step(state, gates, real=None):
        h, c = state
        i, j, f, o = tf.split(gates + tf.matmul(h, recurrent), 4, axis=-1)
        i, j, f, o = tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + 1.0), tf.sigmoid(o)
        new_c = f * c + i * j
        if cell_clip is not None:
            new_c = tf.clip_by_value(new_c, -cell_clip, cell_clip)
        new_h = o * tf.tanh(new_c)
        if has_projection:
            new_h = tf.matmul(new_h, projection)
            if proj_clip is not None:
                new_h = tf.clip_by_value(new_h, -proj_clip, proj_clip)
        if real is not None:
            new_h, new_c = tf.where(real, new_h, h), tf.where(real, new_c, c)
        # One array for all that is kept: in a small model, each operation of the loop counts.
        return (new_h, new_c), tf.concat([new_h, new_c, i, j, f, o], axis=-1)

    sequences = [gates] if mask is None else [gates, mask]
    sizes = [h0.shape[-1], c0.shape[-1], gates.shape[-1]]
    kept, _ = _scan(step, sequences, (h0, c0), (gates.shape[1], sum(sizes)))
    return tf.split(kept, sizes, axis=-1)


def _backward(upstream, kept, inputs, clips):
    """Gradients of the input product, the first state and both matrices."""
    grad_h, grad_last_h, grad_last_c = upstream
    h, c, activations = kept
    h0, c0, mask, recurrent, projection = inputs
    cell_clip, proj_clip = clips
    has_projection = projection.shape[0] != 0
    i, j, f, o = tf.split(activations, 4, axis=-1)  # each (token, batch, units)
    tanh_c = tf.tanh(c)
    c_before = tf.concat([c0[tf.newaxis], c], axis=0)[:-1]
    h_before = tf.concat([h0[tf.newaxis], h], axis=0)[:-1]

    # All that does not wait for the loop. A clipped value passes no gradient, a masked token none.
    real = tf.ones_like(h[..., :1]) if mask is None else tf.cast(mask, h.dtype)
    into_h = real * tf.ones_like(h)
    if has_projection and proj_clip is not None:
        into_h *= tf.cast(tf.abs(h) < proj_clip, h.dtype)
    into_c = real * tf.ones_like(c)
    if cell_clip is not None:
        into_c *= tf.cast(tf.abs(c) < cell_clip, c.dtype)
    # What a unit of the output's gradient gives to the cell, through its tanh.
    slope_c = o * (1.0 - tanh_c * tanh_c) * into_c
    # What a unit of the cell's gradient gives to i, j and f; of the output's, to o.
    slopes = tf.concat(
        [
            i * (1.0 - i) * j,
            (1.0 - j * j) * i,
            f * (1.0 - f) * c_before,
            o * (1.0 - o) * tanh_c,
        ],
        axis=-1,
    )
    sequences = [grad_h, into_h, into_c, slope_c, slopes, f]
    if mask is not None:
        sequences.append(1.0 - real)
    sizes = [sequence.shape[-1] for sequence in sequences]

    def step(state, row):
        grad_h, grad_c = state
        upstream, into_h, into_c, slope_c, slopes, f, *masked = tf.split(row, sizes, axis=-1)
        grad_h += upstream
        new_h = grad_h * into_h
        grad_m = tf.matmul(new_h, projection, transpose_b=True) if has_projection else new_h
        new_c = grad_c * into_c + grad_m * slope_c
        gates = tf.concat([new_c, new_c, new_c, grad_m], axis=-1) * slopes
        before_h = tf.matmul(gates, recurrent, transpose_b=True)
        before_c = new_c * f
        if masked:  # a masked token hands the state through
            before_h += grad_h * masked[0]
            before_c += grad_c * masked[0]
        return (before_h, before_c), tf.concat([gates, new_h], axis=-1)

    rows = tf.concat(sequences, axis=-1)
    out_sizes = [activations.shape[-1], h.shape[-1]]
    out, (grad_h0, grad_c0) = _scan(
        step, [rows], (grad_last_h, grad_last_c), (h.shape[1], sum(out_sizes)), reverse=True
    )
    grad_gates, grad_projected = tf.split(out, out_sizes, axis=-1)
    grad_recurrent = _outer(h_before, grad_gates)
    grad_projection = (
        _outer(o * tanh_c, grad_projected) if has_projection else tf.zeros_like(projection)
    )
    return grad_gates, grad_h0, grad_c0, grad_recurrent, grad_projection


def _scan(
    step: Callable[..., tuple[tuple, tf.Tensor]],
    sequences: Sequence[tf.Tensor],
    state: tuple,
    output_shape: Sequence[int | None],
    reverse: bool = False,
) -> tuple[tf.Tensor, tuple]:
    """Carries a state over the tokens: `state, output = step(state, *token)`.

    Args:
        step: one step.
        sequences: each (token, …).
        state: before the first step.
        output_shape: of one token's output.
        reverse: whether to begin at the last token.

    Returns:
        The outputs in the order of the tokens, (token, …), and the last state.
    """
    known = sequences[0].shape[0]
    if known is not None and 0 < known <= _MOST_UNROLLED:
        tokens = list(zip(*map(tf.unstack, sequences), strict=True))
        outputs = []
        for token in reversed(tokens) if reverse else tokens:
            state, output = step(state, *token)
            outputs.append(output)
        return tf.stack(outputs[::-1] if reverse else outputs), state

    num_tokens = tf.shape(sequences[0])[0]
    arrays = [tf.TensorArray(one.dtype, num_tokens).unstack(one) for one in sequences]
    outputs = tf.TensorArray(state[0].dtype, num_tokens, element_shape=output_shape)

    def body(index, state, outputs):
        token = num_tokens - 1 - index if reverse else index
        state, output = step(state, *(array.read(token) for array in arrays))
        return index + 1, state, outputs.write(token, output)

    _, state, outputs = tf.while_loop(
        lambda index, *_: index < num_tokens, body, (tf.constant(0), state, outputs)
    )
    return tf.ensure_shape(outputs.stack(), (known, *output_shape)), state


def _outer(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """`sum_t left_tᵀ · right_t` of (token, batch, feature) tensors."""
    left = tf.reshape(left, (-1, left.shape[-1]))
    right = tf.reshape(right, (-1, right.shape[-1]))
    return tf.matmul(left, right, transpose_a=True)
