"""vectors of tokens ─► one of the sentence. Masked tokens count for nothing."""

from typing import Any

from keras import ops

# Below any feature, and finite: what there is no token of is then no nan.
_NEVER = -1e9


def masked_max(vectors: Any, mask: Any) -> Any:
    """The greatest of each feature, float (batch, feature); 0 without tokens.

    Args:
        vectors: float (batch, token, feature).
        mask: bool (batch, token).
    """
    real = mask[..., None]
    vectors = ops.where(real, vectors, ops.cast(_NEVER, vectors.dtype))
    greatest = ops.max(vectors, axis=1, initial=_NEVER)  # of no sentence, too
    return ops.where(ops.any(real, axis=1), greatest, ops.zeros_like(greatest))


def masked_min(vectors: Any, mask: Any) -> Any:
    """The least of each feature; see `masked_max`."""
    return -masked_max(-vectors, mask)


def masked_mean(vectors: Any, mask: Any) -> Any:
    """The mean of each feature; see `masked_max`."""
    real = ops.cast(mask, vectors.dtype)[..., None]
    return ops.sum(vectors * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1)
