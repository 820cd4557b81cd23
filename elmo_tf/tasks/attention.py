"""Attention: scores ─► weights, and an alignment of two texts by attention."""

from typing import Any

from keras import ops

# Below any score, and finite, so that a row without tokens has no NaN.
_MASKED = -1e9


def masked_softmax(scores: Any, mask: Any) -> Any:
    """Softmax over the real tokens of the last axis; zeros where there are none.

    Args:
        scores: float (…, token).
        mask: bool, broadcastable to `scores`. True = a real token.

    Returns:
        float (…, token).
    """
    scores = ops.where(mask, scores, ops.cast(_MASKED, scores.dtype))
    # Keras' softmax warns about an axis of size 1.
    weights = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))
    return ops.where(mask, weights, ops.zeros_like(weights))


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
