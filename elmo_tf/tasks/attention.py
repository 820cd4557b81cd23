"""Attention: scores ─► weights, and an alignment of two texts by attention."""

from typing import Any

import keras
from keras import ops

# Below any score, and finite in float16 too, so that a row without tokens has no NaN.
MASKED_SCORE = -3e4


def masked_softmax(scores: Any, mask: Any, null_score: Any = None) -> Any:
    """Softmax over the real tokens of the last axis; zeros where there are none.

    With a null score `β`, attention may also go to no token, and the weights sum to less than 1:
    `p_j = exp(a_j) / (exp(β) + sum_k exp(a_k))`.

    Args:
        scores: float (…, token).
        mask: bool, broadcastable to `scores`. True = a real token.
        null_score: float () or None. Defaults to None, no null score.

    Returns:
        float (…, token).

    Source: the code of Clark and Gardner 2018 (document-qa), for the null score.
    """
    scores = ops.where(mask, scores, ops.cast(MASKED_SCORE, scores.dtype))
    if null_score is not None:  # the score of one more token
        null_scores = ops.broadcast_to(null_score, (*ops.shape(scores)[:-1], 1))
        return ops.softmax(ops.concatenate([scores, null_scores], axis=-1))[..., :-1]
    # `initial` allows an empty batch.
    highest = ops.max(scores, axis=-1, keepdims=True, initial=MASKED_SCORE)
    weights = ops.exp(scores - ops.stop_gradient(highest))
    weights = ops.where(mask, weights, ops.zeros_like(weights))
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights / ops.where(total > 0, total, ops.ones_like(total))


def soft_alignment(vectors: Any, others: Any, others_mask: Any) -> Any:
    """Aligns each token of a text with the tokens of another: `softmax(a · b') · b`.

    Args:
        vectors: float (batch, token, feature).
        others: float (batch, other token, feature).
        others_mask: bool (batch, other token).

    Returns:
        float (batch, token, feature); zeros if the other text is empty.
    """
    scores = ops.matmul(vectors, ops.transpose(others, (0, 2, 1)))  # (batch, token, other token)
    return ops.matmul(masked_softmax(scores, others_mask[:, None, :]), others)


@keras.saving.register_keras_serializable(package="elmo_tf")
class TrilinearSimilarity(keras.layers.Layer):
    """The similarity of each token of a text to each token of another.

    `a_tj = w_c · c_t + w_q · q_j + w_m · (c_t ⊙ q_j) + b`

    Call arguments:
        vectors: float (batch, token, feature). The `c_t`.
        others: float (batch, other token, feature). The `q_j`.

    Returns:
        float (batch, token, other token).

    Source: Seo et al. 2017, section 2; the bias is that of Clark and Gardner 2018.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, vectors_shape, others_shape):
        self.kernel, self.other_kernel, self.product_kernel = (
            self.add_weight(name=name, shape=(vectors_shape[-1],), initializer="glorot_uniform")
            for name in ("kernel", "other_kernel", "product_kernel")
        )
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")

    def call(self, vectors, others):
        of_others = ops.tensordot(others, self.other_kernel, axes=1) + self.bias
        # One product for two terms: w_c · c_t + w_m · (c_t ⊙ q_j) = c_t · (w_c + w_m ⊙ q_j).
        weighted = self.kernel + self.product_kernel * others
        products = ops.matmul(vectors, ops.transpose(weighted, (0, 2, 1)))
        return products + of_others[:, None, :]  # (batch, token, other token)
