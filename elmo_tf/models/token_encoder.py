"""char ids ─► TokenEncoder ─► one vector per token, independent of its context."""

import keras
from keras import ops

from elmo_tf.config import NUM_CHARACTERS, CharCNNConfig
from elmo_tf.layers.char_cnn import CharCNN
from elmo_tf.layers.highway import HighwayStack
from elmo_tf.layers.weights import table_normal, take_entries


class TokenEncoder(keras.layers.Layer):
    """Encodes the characters of tokens: CharCNN, HighwayStack, and a projection.

    The projection is left out if the character CNN already has `projection_dim` features. With a
    lexicon, it reads `[word embedding; highway output]`, and is never left out.

    Args:
        config: its shape.
        projection_dim: int >= 1. Width of a token vector.

    Call arguments:
        char_ids: int (…, char), see `elmo_tf.char_ids`. If the lexicon has words, the first column
            is the id of the word.

    Returns:
        float (…, projection_dim).

    Raises:
        ValueError: `projection_dim` is out of range, the ids are not integers, or there are fewer
            chars than the widest filter has.

    Source: Peters et al. 2018, section 3.4; Che et al. 2018 for words.
    """

    def __init__(self, config: CharCNNConfig, projection_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.lexicon = config.lexicon
        dtype = self.dtype_policy
        count = NUM_CHARACTERS if self.lexicon is None else self.lexicon.num_characters
        shape = config.filters, config.embedding_dim, config.activation, count
        self.char_cnn = CharCNN(*shape, dtype=dtype, name="char_cnn")
        self.highway = HighwayStack(config.num_highway, dtype=dtype, name="highway")
        width = self.char_cnn.num_features
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


class TokenEmbedding(keras.layers.Layer):
    """Looks up the vector of each token in an embedding table, for a biLM without a character CNN.

    Args:
        num_tokens: int. Rows of the table.
        embedding_dim: int.

    Call arguments:
        token_ids: int (…). 0 is padding; id `v` of the vocabulary is `v + 1`.

    Returns:
        float (…, embedding_dim), zeros for id 0.

    Source: the token-embedding files of the original.
    """

    def __init__(self, num_tokens: int, embedding_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.num_tokens = num_tokens
        self.embedding_dim = embedding_dim

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
