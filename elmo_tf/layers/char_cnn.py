"""char ids ─► CharCNN: convolutions over a token's characters, with max pooling."""

from typing import Any

import keras
from keras import ops

from elmo_tf.config import NUM_CHARACTERS, CharCNNConfig
from elmo_tf.layers.weights import set_attributes
from elmo_tf.portability import is_portable

# From this number of filters on, the implementation of `char_cnn_tf` is faster.
_MANY_FILTERS = 512


@keras.saving.register_keras_serializable(package="elmo_tf")
class CharCNN(keras.layers.Layer):
    """Computes a token's vector from its characters.

    For each filter `(width, count)`: `f(max_p (sum_k e_{p+k} · W_k) + b)`, where `e` are character
    embeddings and `p` runs over all windows without padding. The outputs are concatenated.

    Args:
        filters: pairs (width in characters, number of filters). Defaults to the published ones.
        embedding_dim: int >= 1. Width of the character embeddings. Defaults to 16.
        activation: "relu" or "tanh", `f` in the formula. Defaults to "relu".
        num_characters: int >= 1. Number of ids. Defaults to 261, see `elmo_tf.char_ids`.

    Call arguments:
        char_ids: int (…, char), values 0 to `num_characters`. Zeros alone are a padding token.
            Character padding (261 of `elmo_tf.char_ids`) has an embedding.

    Returns:
        float (…, sum of counts). The mask is False where all ids of a token are 0.

    Raises:
        ValueError: an argument is out of range, ids are not integers, or rows are shorter than the
            widest filter.

    Example:
        >>> char_cnn = elmo_tf.layers.CharCNN(filters=[(1, 4), (2, 8)])
        >>> tuple(char_cnn(elmo_tf.char_ids([["the", "cat", "sat"]])).shape)
        (1, 3, 12)

    Source: Peters et al. 2018, section 3.4; Kim et al. 2016.
    """

    def __init__(
        self,
        filters: Any = CharCNNConfig.filters,
        embedding_dim: int = CharCNNConfig.embedding_dim,
        activation: str = CharCNNConfig.activation,
        num_characters: int = NUM_CHARACTERS,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = tuple((width, count) for width, count in filters)
        if not self.filters or min(map(min, self.filters)) < 1:
            raise ValueError(
                f"`filters` must be pairs (width, count) of positive integers. Received: {filters}"
            )
        if embedding_dim < 1:
            raise ValueError(f"`embedding_dim` must be at least 1. Received: {embedding_dim}")
        if activation not in ("relu", "tanh"):
            raise ValueError(f"`activation` must be relu or tanh. Received: {activation!r}")
        if num_characters < 1:
            raise ValueError(f"`num_characters` must be at least 1. Received: {num_characters}")
        self.num_features = sum(count for _, count in self.filters)
        self.embedding_dim = embedding_dim
        self.activation = activation
        self.num_characters = num_characters
        # XLA does not support the loop of `char_cnn_tf`.
        is_loop = keras.config.backend() == "tensorflow" and self.num_features >= _MANY_FILTERS
        self.supports_jit = not is_loop

    def build(self, input_shape):
        width = max(width for width, _ in self.filters)
        if input_shape[-1] is not None and input_shape[-1] < width:
            raise ValueError(
                f"`char_ids` must have at least {width} characters per row, the width of the "
                f"widest filter. Received: shape {tuple(input_shape)}"
            )
        # Without a row for id 0, whose embedding is always zero.
        self.char_embedding = self.add_weight(
            name="char_embedding",
            shape=(self.num_characters, self.embedding_dim),
            initializer=keras.initializers.RandomUniform(-1.0, 1.0),
        )
        self.kernels, self.biases = [], []
        for index, (width, count) in enumerate(self.filters):
            shape, initializer = (width, self.embedding_dim, count), "uniform"
            if self.activation == "tanh":
                stddev = (width * self.embedding_dim) ** -0.5
                initializer = keras.initializers.RandomNormal(stddev=stddev)
            self.kernels.append(self.add_weight(shape, initializer, name=f"kernel_{index}"))
            self.biases.append(self.add_weight((count,), "zeros", name=f"bias_{index}"))
        set_attributes(self, "kernels", self.kernels)
        set_attributes(self, "biases", self.biases)

    def call(self, char_ids):
        if not keras.backend.is_int_dtype(char_ids.dtype):
            received = keras.backend.standardize_dtype(char_ids.dtype)
            remedy = 'A Sequential needs keras.Input((None, 50), dtype="int32").'
            raise ValueError(f"`char_ids` must be integers. Received: {received}. {remedy}")
        leading = ops.shape(char_ids)[:-1]
        ids = ops.reshape(char_ids, (-1, ops.shape(char_ids)[-1]))  # (token, char)
        table = ops.convert_to_tensor(self.char_embedding)
        table = ops.concatenate([ops.zeros_like(table[:1]), table], axis=0)  # (id, embedding)
        # The reshape makes the gradient dense: it sums the contributions to each row.
        table = ops.reshape(table, table.shape)
        # Keras's maximum fails without tokens.
        is_fast = self.num_features >= _MANY_FILTERS or is_portable() or ids.shape[0] == 0
        if keras.config.backend() == "tensorflow" and is_fast:
            from elmo_tf.layers import char_cnn_tf

            kernels = [ops.convert_to_tensor(kernel) for kernel in self.kernels]
            maxima = char_cnn_tf.maxima(ids, table, kernels)  # (token, feature)
        else:
            embedded = ops.take(table, ids, axis=0)  # (token, char, embedding)
            windows = [ops.conv(embedded, kernel, padding="valid") for kernel in self.kernels]
            maxima = ops.concatenate([ops.max(window, axis=1) for window in windows], axis=-1)
        bias = ops.concatenate([ops.convert_to_tensor(bias) for bias in self.biases], axis=0)
        features = getattr(ops, self.activation)(maxima + bias)
        return ops.reshape(features, (*leading, self.num_features))

    def compute_mask(self, char_ids, previous_mask=None):
        return ops.any(ops.not_equal(char_ids, 0), axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.num_features)

    def get_config(self):
        return {
            **super().get_config(),
            "filters": [list(pair) for pair in self.filters],
            "embedding_dim": self.embedding_dim,
            "activation": self.activation,
            "num_characters": self.num_characters,
        }


def cut_characters(char_ids, max_width: int, pad: int = NUM_CHARACTERS):
    """Removes padding, of the id `pad`, after the longest token without changing any vector.

    The maxima over the filter windows stay the same: either one window of the widest filter, of
    `max_width` characters, that contains only padding remains, or nothing is removed.
    """
    limit = ops.shape(char_ids)[1]
    used = ops.logical_and(ops.not_equal(char_ids, 0), ops.not_equal(char_ids, pad))
    longest = ops.max(ops.where(used, ops.arange(1, limit + 1, dtype="int32"), 0), initial=0)
    # Rounded to few distinct widths: TensorFlow keeps memory for every shape it has seen.
    keep = ops.minimum((longest + max_width + 3) // 4 * 4, limit)
    return char_ids[:, :keep]
