"""L + 1 representations ─► ScalarMix: one vector per token ─► MeanOverTokens: one per sentence."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops


class MixingWeights(NamedTuple):
    """The learned values of a mix.

    weights: float32 (layer,), the softmax of the learned weights, starting with the token layer.
    scale: float, the factor of the weighted sum (`gamma`).
    """

    weights: np.ndarray
    scale: float


@keras.saving.register_keras_serializable(package="elmo_tf")
class ScalarMix(keras.layers.Layer):
    """Mixes the layers of a biLM into one vector per token.

    `mix = gamma · sum_j softmax(w)_j · h_j`

    With `layer_norm`, each `h_j` is first normalized by its mean and variance over all real tokens
    and features of the batch: `(h - mu) / sqrt(var + 1e-12)`. As in the original, the vectors of a
    sentence then depend on the other sentences of the batch.

    Args:
        l2: float >= 0. Strength of the penalty on `w`: 1 keeps the mix near the average, 0.001
            lets the layers differ. Defaults to 0.
        layer_norm: bool. Defaults to False.
        average: bool. Whether all layers have equal weights and only `gamma` is learned.
            Defaults to False.

    Call arguments:
        layers: float (batch, layer, token, feature).
        mask: bool (batch, token) or None. True = a real token. Used only by `layer_norm`.

    Returns:
        float (batch, token, feature).

    Raises:
        ValueError: `l2` is below 0, or `layers` does not have four axes with a known layer axis.

    Example:
        >>> mix = elmo_tf.layers.ScalarMix()
        >>> tuple(mix(np.ones((2, 3, 5, 8), np.float32)).shape)
        (2, 5, 8)

    Source: Peters et al. 2018, equation 1 and section 3.2.
    """

    def __init__(self, l2: float = 0.0, layer_norm: bool = False, average: bool = False, **kwargs):
        super().__init__(**kwargs)
        if l2 < 0:
            raise ValueError(f"`l2` must be at least 0. Received: {l2}")
        self.l2 = l2
        self.layer_norm = layer_norm
        self.average = average
        self.supports_masking = True

    def build(self, input_shape):
        if len(input_shape) != 4 or input_shape[1] is None:
            raise ValueError(
                "`layers` must have shape (batch, layer, token, feature) with a known number of "
                f"layers. Received: shape {tuple(input_shape)}"
            )
        self.layer_weights = self.add_weight(
            name="weights",
            shape=(input_shape[1],),
            initializer="zeros",
            regularizer=keras.regularizers.L2(self.l2) if self.l2 else None,
            trainable=not self.average,
        )
        self.scaling = self.add_weight(name="scaling", shape=(), initializer="ones")

    def call(self, layers, mask=None):
        if self.layer_norm:
            layers = _normalize(layers, mask)
        weights = ops.reshape(self.softmax_weights(), (1, -1, 1, 1))
        return self.scaling * ops.sum(weights * layers, axis=1)  # (batch, token, feature)

    def softmax_weights(self):
        """The softmax of the learned weights, float (layer,)."""
        # `ops.softmax` warns if there is a single layer.
        return ops.exp(self.layer_weights - ops.logsumexp(self.layer_weights))

    def mixing_weights(self) -> MixingWeights:
        """The learned values as NumPy and Python numbers."""
        weights = np.asarray(ops.convert_to_numpy(self.softmax_weights()), np.float32)
        return MixingWeights(weights, float(ops.convert_to_numpy(self.scaling)))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])

    def get_config(self):
        return {
            **super().get_config(),
            "l2": self.l2,
            "layer_norm": self.layer_norm,
            "average": self.average,
        }


def _normalize(layers, mask):
    """Normalizes each layer over the real tokens of the batch; padding becomes zero."""
    dtype = layers.dtype
    # In 16 bits the sums would overflow, and 1e-12 would be 0.
    layers = ops.cast(layers, keras.backend.result_type(dtype, "float32"))
    real = ops.ones_like(layers[:, 0, :, 0]) if mask is None else ops.cast(mask, layers.dtype)
    real = ops.reshape(real, (ops.shape(real)[0], 1, -1, 1))  # (batch, 1, token, 1)
    count = ops.maximum(ops.sum(real) * layers.shape[-1], 1)
    mean = ops.sum(layers * real, axis=(0, 2, 3), keepdims=True) / count  # (1, layer, 1, 1)
    centered = (layers - mean) * real
    variance = ops.sum(centered * centered, axis=(0, 2, 3), keepdims=True) / count
    return ops.cast(centered * ops.rsqrt(variance + 1e-12), dtype)


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

    def call(self, vectors, mask=None):
        return masked_mean(vectors, ops.ones_like(vectors[..., 0]) if mask is None else mask)

    def compute_mask(self, vectors, previous_mask=None):
        return None  # sentences have no mask

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])


def masked_mean(vectors: Any, mask: Any) -> Any:
    """The function of `MeanOverTokens`."""
    dtype = keras.backend.result_type(vectors.dtype, "float32")  # float16 cannot count to 3,000
    real = ops.expand_dims(ops.cast(mask, dtype), -1)
    total = ops.sum(ops.cast(vectors, dtype) * real, axis=1)
    return ops.cast(total / ops.maximum(ops.sum(real, axis=1), 1), vectors.dtype)
