"""biLM ─► exact losses over the whole vocabulary, in bounded memory."""

import tensorflow as tf

from elmo_tf.layers.sampled_softmax import SampledSoftmax

# Numbers in the largest matrix of logits, (token, vocabulary): 128 MiB.
_LOGITS_IN_MEMORY = 2**25


def token_losses(softmax: SampledSoftmax, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Exact negative log-likelihoods, with a bounded matrix of logits.

    Args:
        softmax: the layer.
        inputs: float (token, feature).
        targets: int (token,).

    Returns:
        float32 (token,), natural logarithm.
    """
    chunk = tokens_at_once(softmax)
    # No token at all is one chunk too: there must be something to lay end to end.
    num_chunks = tf.maximum(1, -(-tf.shape(inputs)[0] // chunk))
    parts = tf.TensorArray(tf.float32, num_chunks, infer_shape=False, element_shape=(None,))

    def write(number: tf.Tensor, parts: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        part = slice(number * chunk, (number + 1) * chunk)
        losses = softmax.full_loss(inputs[part], targets[part])
        return number + 1, parts.write(number, tf.cast(losses, tf.float32))

    _, parts = tf.while_loop(
        lambda number, _: number < num_chunks, write, (tf.constant(0), parts), parallel_iterations=1
    )
    return parts.concat()


def tokens_at_once(softmax: SampledSoftmax) -> int:
    """Tokens whose logits over the whole vocabulary are in memory together."""
    return max(1, _LOGITS_IN_MEMORY // softmax.vocabulary_size)
