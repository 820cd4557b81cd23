"""char ids ─► TokenEncoder ─► one vector per token, independent of its context."""

from collections.abc import Mapping

import keras
from keras import ops

from elmo_tf.config import NUM_CHARACTERS, CharCNNConfig, LexiconConfig
from elmo_tf.layers.char_cnn import CharCNN
from elmo_tf.layers.highway import HighwayStack
from elmo_tf.layers.weights import table_normal, take_entries


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenEncoder(keras.layers.Layer):
    """Encodes the characters of tokens: CharCNN, HighwayStack, and a projection.

    The projection is left out if the character CNN already has `projection_dim` features.

    With a `lexicon`, the projection reads `[word embedding; highway output]`, and is never left
    out.

    Args:
        filters, embedding_dim, activation: see `CharCNN`.
        num_highway: see `HighwayStack`.
        projection_dim: int >= 1. Width of a token vector. Defaults to 512.
        lexicon: a `LexiconConfig`, or its fields as a dict. Defaults to None: bytes.

    Call arguments:
        char_ids: int (…, char), see `elmo_tf.char_ids`. If the lexicon has words, the first column
            is the id of the word.

    Returns:
        float (…, projection_dim). The mask is False where all ids of a token are 0.

    Raises:
        ValueError: an argument is out of range, the ids are not integers, or there are fewer chars
            than the widest filter has.

    Source: Peters et al. 2018, section 3.4; Che et al. 2018 for words.
    """

    def __init__(
        self,
        filters=CharCNNConfig.filters,
        embedding_dim: int = CharCNNConfig.embedding_dim,
        num_highway: int = CharCNNConfig.num_highway,
        activation: str = CharCNNConfig.activation,
        projection_dim: int = 512,
        lexicon: LexiconConfig | Mapping[str, int] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.projection_dim = projection_dim
        self.lexicon = LexiconConfig(**lexicon) if isinstance(lexicon, Mapping) else lexicon
        dtype = self.dtype_policy
        count = NUM_CHARACTERS if self.lexicon is None else self.lexicon.num_characters
        self.char_cnn = CharCNN(
            filters, embedding_dim, activation, count, dtype=dtype, name="char_cnn"
        )
        self.highway = HighwayStack(num_highway, dtype=dtype, name="highway")
        width = sum(count for _, count in self.char_cnn.filters)
        self.word_embedding = None
        if self.lexicon is not None and self.lexicon.num_words:
            self.word_embedding = TokenEmbedding(
                self.lexicon.num_words, self.lexicon.word_dim, dtype=dtype, name="word_embedding"
            )
            width += self.lexicon.word_dim
        self.projection = None
        if self.lexicon is not None or width != projection_dim:
            self.projection = keras.layers.Dense(
                projection_dim,
                kernel_initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                dtype=dtype,
                name="projection",
            )
        self.supports_masking = True

    def build(self, input_shape):
        if self.word_embedding is not None and input_shape[-1] is not None:
            input_shape = (*input_shape[:-1], input_shape[-1] - 1)
        self.char_cnn.build(input_shape)
        features = self.char_cnn.compute_output_shape(input_shape)
        self.highway.build(features)
        if self.word_embedding is not None:
            self.word_embedding.build(input_shape[:-1])
            features = (*features[:-1], self.lexicon.word_dim + features[-1])
        if self.projection is not None:
            self.projection.build(features)

    def call(self, char_ids):
        words = None
        if self.word_embedding is not None:
            words, char_ids = self.word_embedding(char_ids[..., 0]), char_ids[..., 1:]
        features = self.highway(self.char_cnn(char_ids))
        if words is not None:
            features = ops.concatenate([words, features], axis=-1)
        return features if self.projection is None else self.projection(features)

    def compute_mask(self, char_ids, previous_mask=None):
        return self.char_cnn.compute_mask(char_ids)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.projection_dim)

    def get_config(self):
        char_cnn = self.char_cnn.get_config()
        return {
            **super().get_config(),
            **{name: char_cnn[name] for name in ("filters", "embedding_dim", "activation")},
            "num_highway": self.highway.num_layers,
            "projection_dim": self.projection_dim,
            "lexicon": None if self.lexicon is None else vars(self.lexicon),
        }


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenEmbedding(keras.layers.Layer):
    """Looks up the vector of each token in an embedding table, for a biLM without a character CNN.

    Args:
        num_tokens: int >= 1.
        embedding_dim: int >= 1.

    Call arguments:
        token_ids: int (…). 0 is padding; id `v` of the vocabulary is `v + 1`.

    Returns:
        float (…, embedding_dim), zeros for id 0. The mask is False for id 0.

    Raises:
        ValueError: an argument is below 1.

    Source: the token-embedding files of the original.
    """

    def __init__(self, num_tokens: int, embedding_dim: int, **kwargs):
        super().__init__(**kwargs)
        for name, value in (("num_tokens", num_tokens), ("embedding_dim", embedding_dim)):
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {value}")
        self.num_tokens = num_tokens
        self.embedding_dim = embedding_dim
        self.supports_masking = True

    def build(self, input_shape):
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.num_tokens, self.embedding_dim),
            initializer=table_normal(self.embedding_dim**-0.5),
            # Casting the table would make its gradient dense instead of sparse.
            autocast=False,
        )

    def call(self, token_ids):
        vectors = take_entries(self.embedding, ops.maximum(token_ids - 1, 0))
        vectors = ops.cast(vectors, self.compute_dtype)
        real = ops.expand_dims(ops.not_equal(token_ids, 0), -1)
        return ops.where(real, vectors, ops.zeros_like(vectors))

    def compute_mask(self, token_ids, previous_mask=None):
        return ops.not_equal(token_ids, 0)

    def compute_output_shape(self, input_shape):
        return (*input_shape, self.embedding_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "num_tokens": self.num_tokens,
            "embedding_dim": self.embedding_dim,
        }
