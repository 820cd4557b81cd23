"""char ids ─► CharCNN: convolutions over a token's characters, and their maxima."""

from typing import Any

import keras
from keras import ops

from elmo_tf.config import NUM_CHARACTERS, CharCNNConfig

# From here on, the faster form costs less than the operations that it adds.
_MANY_FILTERS = 512


@keras.saving.register_keras_serializable(package="elmo_tf")
class CharCNN(keras.layers.Layer):
    """Turns the characters of a token into one vector.

    For each filter `(width, count)`: `f(max_p (sum_k e_{p+k} · W_k) + b)`, over every window `p`
    that lies wholly in the row, where `e` embeds a character; all filters side by side.

    Args:
        filters: pairs (width in characters, number of filters). Defaults to the published ones.
        embedding_dim: int >= 1. Width of a character's embedding. Defaults to 16.
        activation: "relu" or "tanh", the `f` above. Defaults to "relu".

    Call arguments:
        char_ids: int (…, char), values 0 to 261 as `elmo_tf.char_ids` gives them. 0, in all of a
            row, means that no token is here. Padding (261) is a character with an embedding.

    Returns:
        float (…, sum of counts). With a mask that is False where a row is all zeros.

    Raises:
        ValueError: an argument out of its range, ids that are not integers, or rows shorter than
            the widest filter.

    Source: Peters et al. 2018, section 3.4; Kim et al. 2016.
    """

    def __init__(
        self,
        filters: Any = CharCNNConfig.filters,
        embedding_dim: int = CharCNNConfig.embedding_dim,
        activation: str = CharCNNConfig.activation,
        **kwargs,
    ):
        super().__init__(**kwargs)
        checked = CharCNNConfig(
            filters=filters, embedding_dim=embedding_dim, activation=activation, max_chars=10**6
        )
        self.filters = checked.filters
        self.embedding_dim = checked.embedding_dim
        self.activation = checked.activation
        self.supports_masking = True

    def build(self, input_shape):
        width = max(width for width, _ in self.filters)
        if input_shape[-1] is not None and input_shape[-1] < width:
            raise ValueError(
                f"`char_ids` must have at least {width} characters a row, the width of the widest "
                f"filter. Received: shape {tuple(input_shape)}"
            )
        # One row fewer than there are ids: id 0 is no character, and always a zero vector.
        self.char_embedding = self.add_weight(
            name="char_embedding",
            shape=(NUM_CHARACTERS, self.embedding_dim),
            initializer=keras.initializers.RandomUniform(-1.0, 1.0),
        )
        self.kernels, self.biases = [], []
        for index, (width, count) in enumerate(self.filters):
            self.kernels.append(
                self.add_weight(
                    name=f"kernel_{index}",
                    shape=(width, self.embedding_dim, count),
                    initializer=self._kernel_initializer(width),
                )
            )
            self.biases.append(
                self.add_weight(name=f"bias_{index}", shape=(count,), initializer="zeros")
            )

    def _kernel_initializer(self, width: int) -> keras.initializers.Initializer:
        if self.activation == "relu":
            return keras.initializers.RandomUniform(-0.05, 0.05)
        return keras.initializers.RandomNormal(stddev=(width * self.embedding_dim) ** -0.5)

    def call(self, char_ids):
        if not keras.backend.is_int_dtype(char_ids.dtype):
            received = keras.backend.standardize_dtype(char_ids.dtype)
            raise ValueError(f"`char_ids` must be integers. Received: {received}")
        leading = ops.shape(char_ids)[:-1]
        ids = ops.reshape(char_ids, (-1, ops.shape(char_ids)[-1]))  # (token, char)
        table = ops.convert_to_tensor(self.char_embedding)
        table = ops.concatenate([ops.zeros_like(table[:1]), table], axis=0)  # (262, embedding)
        # A reshape adds up what comes back for a row; optimizers would square each part of it.
        table = ops.reshape(table, table.shape)
        if keras.config.backend() == "tensorflow" and self._num_features() >= _MANY_FILTERS:
            from elmo_tf.layers import char_cnn_tf

            kernels = [ops.convert_to_tensor(kernel) for kernel in self.kernels]
            maxima = char_cnn_tf.maxima(ids, table, kernels)  # (token, feature)
        else:
            embedded = ops.take(table, ids, axis=0)  # (token, char, embedding)
            windows = [ops.conv(embedded, kernel, padding="valid") for kernel in self.kernels]
            maxima = ops.concatenate([ops.max(one, axis=1) for one in windows], axis=-1)
        bias = ops.concatenate([ops.convert_to_tensor(bias) for bias in self.biases], axis=0)
        features = getattr(ops, self.activation)(maxima + bias)
        return ops.reshape(features, (*leading, self._num_features()))

    def compute_mask(self, char_ids, previous_mask=None):
        return ops.any(ops.not_equal(char_ids, 0), axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self._num_features())

    def _num_features(self) -> int:
        return sum(count for _, count in self.filters)

    def get_config(self):
        return {
            **super().get_config(),
            "filters": [list(pair) for pair in self.filters],
            "embedding_dim": self.embedding_dim,
            "activation": self.activation,
        }
