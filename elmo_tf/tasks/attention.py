"""scores of tokens ─► their shares of attention, and the mean vector that these give."""

from typing import Any

from keras import ops

# Below any score, and finite: the softmax over no token is then no nan.
_NEVER = -1e9


def masked_softmax(scores: Any, mask: Any) -> Any:
    """Shares of the real tokens on the last axis; zeros where there is none.

    Args:
        scores: float (…, token).
        mask: bool of a shape that broadcasts to it.
    """
    scores = ops.where(mask, scores, ops.cast(_NEVER, scores.dtype))
    # Keras's own softmax warns of a single token.
    shares = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))
    return ops.where(mask, shares, ops.zeros_like(shares))


def soft_alignment(vectors: Any, others: Any, others_mask: Any) -> Any:
    """For each token of a text, what stands for it in another: `softmax(a · b') · b`.

    Args:
        vectors: float (batch, token, feature).
        others: float (batch, other token, feature).
        others_mask: bool (batch, other token).

    Returns:
        float (batch, token, feature); zeros if the other text is empty.
    """
    scores = ops.matmul(vectors, ops.transpose(others, (0, 2, 1)))  # (batch, token, other token)
    return ops.matmul(masked_softmax(scores, others_mask[:, None, :]), others)
