"""The mean of token vectors: one vector per sentence."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="elmo_tf")
class MeanOverTokens(keras.layers.Layer):
    """The mean of each feature over the real tokens of a sentence.

    Keras's `GlobalAveragePooling1D` divides by the number of real tokens. For an empty text that is
    zero: the mean is NaN, and after one training step so are all weights.

    Call arguments:
        vectors: float (batch, token, feature).
        mask: bool (batch, token) or None. True = a real token. Taken from the layer below, such as
            `Elmo`. None: all tokens are real.

    Returns:
        float (batch, feature); zeros for a sentence without tokens.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, vectors, mask=None):
        return masked_mean(vectors, ops.ones_like(vectors[..., 0]) if mask is None else mask)

    def compute_mask(self, vectors, previous_mask=None):
        return None  # sentences have no mask

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])


def masked_mean(vectors: Any, mask: Any) -> Any:
    """The function of `MeanOverTokens`."""
    real = ops.cast(mask, vectors.dtype)[..., None]
    return ops.sum(vectors * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1)
