"""The time loop of `ProjectedLSTM` on TensorFlow, with the input product taken out of it.

The plain form, for every backend, is Keras's own loop over `ProjectedLSTMCell`; a test holds that
both agree.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf


def recurrence(
    step: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    gates: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    go_backwards: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs `h, c = step(gates_t, h, c)` over the tokens.

    Args:
        step: one step of the cell.
        gates: float (batch, token, 4 · units), the input product.
        initial_state: `[h, c]`.
        mask: bool (batch, token) or None. At a masked token the state stays and the output is 0.
        go_backwards: whether to begin with the last token.

    Returns:
        Outputs, float (batch, token, feature), in the order in which they are computed, and the
        last `[h, c]`.
    """
    gates = tf.transpose(gates, (1, 0, 2))  # (token, batch, 4 · units)
    num_tokens = tf.shape(gates)[0]
    inputs = tf.TensorArray(gates.dtype, num_tokens).unstack(gates)
    masks = None
    if mask is not None:
        mask = tf.transpose(mask)[:, :, tf.newaxis]  # (token, batch, 1)
        masks = tf.TensorArray(tf.bool, num_tokens).unstack(mask)
    h, c = initial_state
    outputs = tf.TensorArray(h.dtype, num_tokens, element_shape=h.shape)

    def body(index, h, c, outputs):
        position = num_tokens - 1 - index if go_backwards else index
        new_h, new_c = step(inputs.read(position), h, c)
        output = new_h
        if masks is not None:
            real = masks.read(position)  # (batch, 1)
            output = tf.where(real, new_h, tf.zeros_like(new_h))
            new_h, new_c = tf.where(real, new_h, h), tf.where(real, new_c, c)
        return index + 1, new_h, new_c, outputs.write(index, output)

    _, h, c, outputs = tf.while_loop(
        lambda index, *_: index < num_tokens, body, (tf.constant(0), h, c, outputs)
    )
    return tf.transpose(outputs.stack(), (1, 0, 2)), [h, c]
