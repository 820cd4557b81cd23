"""Attention and pooling over the real tokens of a text. Masked tokens have no effect."""

from typing import Any

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


def masked_max(vectors: Any, mask: Any) -> Any:
    """The maximum of each feature over the tokens.

    Args:
        vectors: float (batch, token, feature).
        mask: bool (batch, token). True = a real token.

    Returns:
        float (batch, feature); zeros for a sentence without tokens.
    """
    real = mask[..., None]
    vectors = ops.where(real, vectors, ops.cast(MASKED_SCORE, vectors.dtype))
    pooled = ops.max(vectors, axis=1, initial=MASKED_SCORE)  # `initial` allows an empty batch
    return ops.where(ops.any(real, axis=1), pooled, ops.zeros_like(pooled))


def masked_min(vectors: Any, mask: Any) -> Any:
    """The minimum of each feature over the tokens; see `masked_max`."""
    return -masked_max(-vectors, mask)
