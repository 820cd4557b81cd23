"""Exact losses over the complete vocabulary, in bounded memory."""

from collections.abc import Sequence

import tensorflow as tf

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.models.language_model import LanguageModel

# Elements of the largest matrix of logits, (token, vocabulary): 128 MiB.
_LOGITS_IN_MEMORY = 2**25


def window_losses(
    model: LanguageModel, outputs: Sequence[tf.Tensor], targets: tf.Tensor, mask: tf.Tensor
) -> list[tf.Tensor]:
    """Computes the exact losses of a window's real targets: float32 (real token,) per direction.

    Args:
        model, outputs, targets: see `LanguageModel.top_layer_outputs` and `LanguageModel.targets`.
        mask: bool (row, token).
    """
    is_real = tf.reshape(mask, (-1,))
    return [
        token_losses(model.softmax, tf.boolean_mask(top, mask), tf.boolean_mask(ids, is_real))
        for top, ids in zip(outputs, model.targets(targets), strict=True)
    ]


def token_losses(softmax: SampledSoftmax, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Computes exact negative log-likelihoods, natural logarithm, in chunks of tokens.

    Args: `inputs` float (token, feature), `targets` int (token,). Returns: float32 (token,).
    """
    chunk = tokens_per_chunk(softmax)
    # At least one chunk, even of no tokens: `concat` needs an element.
    num_chunks = tf.maximum(1, -(-tf.shape(inputs)[0] // chunk))
    losses = tf.TensorArray(tf.float32, num_chunks, infer_shape=False, element_shape=(None,))

    def write(number: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        part = slice(number * chunk, (number + 1) * chunk)
        loss = softmax.full_loss(inputs[part], targets[part])
        return number + 1, losses.write(number, tf.cast(loss, tf.float32))

    _, losses = tf.while_loop(
        lambda number, _: number < num_chunks,
        write,
        (tf.constant(0), losses),
        parallel_iterations=1,
    )
    return losses.concat()


def tokens_per_chunk(softmax: SampledSoftmax) -> int:
    """Returns the number of tokens whose logits are in memory at the same time."""
    return max(1, _LOGITS_IN_MEMORY // softmax.vocabulary_size)
