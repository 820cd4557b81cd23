"""Pooling: vectors of tokens ─► one vector per sentence. Masked tokens have no effect."""

from typing import Any

from keras import ops

from elmo_tf.tasks.attention import MASKED_SCORE


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
