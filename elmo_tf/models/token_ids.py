"""tokens ─► the ids that a token encoder reads, for each distinct token of a batch once.

The encoder's vectors are a list: no token, `<S>`, `</S>`, then the distinct tokens. A token's index
is its place in this list.
"""

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.config import BiLMConfig, CharCNNConfig
from elmo_tf.layers.char_cnn import cut_characters
from elmo_tf.portability import is_portable
from elmo_tf.text.characters import BYTES, Spelling
from elmo_tf.text.inputs import checked, count_tokens, is_token, token_batch
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary
from elmo_tf.text.windows import boundary_or

# Only this module depends on their order.
_NO_TOKEN_INDEX, _BOS_INDEX, _EOS_INDEX, NUM_SPECIAL_TOKENS = range(4)

_TOKEN_COUNT_MULTIPLE = 64


def ids_of_config(
    config: BiLMConfig, vocabulary: Vocabulary | None, lexicon: Lexicon | None
) -> "CharacterIds | TokenIds":
    """The conversion to ids for a biLM, whose vocabulary or lexicon must match its shape."""
    cnn = config.char_cnn
    sizes = lexicon and (lexicon.num_characters, lexicon.num_words)
    expected = cnn and cnn.lexicon and (cnn.lexicon.num_characters, cnn.lexicon.num_words)
    if sizes != expected:
        raise ValueError(
            "`lexicon` must have the numbers of characters and words of `config.char_cnn.lexicon`, "
            f"{expected}. Received: {sizes}. Is it the lexicon of another model?"
        )
    if cnn is not None:
        if vocabulary is not None:
            raise ValueError(
                "`vocabulary` is only for a biLM without a character CNN; this biLM has one."
            )
        return CharacterIds(cnn, lexicon)
    if vocabulary is not None and len(vocabulary) != config.num_tokens:
        raise ValueError(
            f"`vocabulary` must have {config.num_tokens} tokens, as many as the embedding table. "
            f"Received: {len(vocabulary)} tokens."
        )
    return TokenIds(config.num_tokens, vocabulary)


class CharacterIds:
    """Char ids, for a `TokenEncoder`. `spelling` is a `Lexicon`, or None for bytes."""

    def __init__(self, char_cnn: CharCNNConfig, spelling: Spelling | None = None):
        self._char_cnn = char_cnn
        self.spelling = spelling or BYTES
        self.width = self.spelling.num_columns + char_cnn.max_chars  # ids of a token

    def of_strings(self, tokens: tf.Tensor) -> tf.Tensor:
        """Converts strings (token,) to int32 (token, width). Zeros for `""`."""
        return self.spelling.ids_of(tokens, self._char_cnn.max_chars)

    def of_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Checks ids (batch, token, char) and pads them to (batch · token, width).

        The character CNN takes its maxima over the padding too, so all tokens must be padded alike.
        """
        if len(ids.shape) != 3:
            raise ValueError(
                "This biLM reads strings, or char ids of shape (batch, token, char). "
                f"Received: ids of shape {tuple(ids.shape)}."
            )
        first, max_chars = self.spelling.num_columns, self._char_cnn.max_chars
        after = ", after the id of the word" if first else ""
        message = f"Char ids must have 3 to {max_chars} characters per token{after}"
        width = ids.shape[-1]
        if width is None:
            width = tf.shape(ids)[-1]
            fits = tf.logical_and(width >= first + 3, width <= self.width)
            ids = checked(ids, fits, f"{message}. Received", width)
        elif not first + 3 <= width <= self.width:
            raise ValueError(f"{message}. Received: ids of shape {tuple(ids.shape)}.")
        ids = ops.reshape(ids, (-1, width))
        words, characters = ids[:, :first], ids[:, first:]
        characters = _checked_range(characters, self.spelling.num_characters)
        pad = self.spelling.pad
        characters = ops.where(characters == 0, pad, characters)
        missing = [[0, 0], [0, self.width - width]]
        characters = ops.pad(characters, missing, constant_values=pad)
        if not first:
            return characters
        words = _checked_range(words, self.spelling.num_words)
        return ops.concatenate([words, characters], axis=1)

    def after_boundaries(self, ids: tf.Tensor) -> tf.Tensor:
        """Prepends the ids of `<S>` and `</S>`, and removes unnecessary character padding."""
        boundaries = self.spelling.boundary_ids(self._char_cnn.max_chars)
        ids = ops.concatenate([boundaries, ids], axis=0)
        if keras.config.backend() != "tensorflow":  # JAX cannot trace a shape that varies
            return ids
        first = self.spelling.num_columns
        cut = cut_characters(ids[:, first:], self._char_cnn.max_width, self.spelling.pad)
        return ops.concatenate([ids[:, :first], cut], axis=1) if first else cut


class TokenIds:
    """Ids of whole tokens, for a `TokenEmbedding` of `num_tokens` rows."""

    width = None

    def __init__(self, num_tokens: int, vocabulary: Vocabulary | None):
        self._num_tokens = num_tokens
        self._vocabulary = vocabulary

    def of_strings(self, tokens: tf.Tensor) -> tf.Tensor:
        """Converts strings (token,) to int32 (token,). Zeros for `""`."""
        if self._vocabulary is None:
            raise ValueError(
                "This biLM has no character CNN and needs a vocabulary to read strings: add "
                "vocab.txt to the checkpoint directory, or pass `vocabulary=`, or token ids "
                "instead of strings."
            )
        ids = tf.cast(self._vocabulary.lookup(tokens), tf.int32) + 1
        return tf.where(is_token(tokens), ids, 0)

    def of_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Checks ids (batch, token) and flattens them. Errors: see `CharacterIds.of_ids`."""
        if len(ids.shape) != 2:
            raise ValueError(
                "A biLM without a character CNN reads strings, or token ids of shape (batch, "
                f"token). Received: ids of shape {tuple(ids.shape)}."
            )
        return ops.reshape(_checked_range(ids, self._num_tokens), (-1,))

    def after_boundaries(self, ids: tf.Tensor) -> tf.Tensor:
        """Prepends the ids of `<S>` and `</S>`."""
        return ops.concatenate([ops.array([BOS_ID + 1, EOS_ID + 1], ids.dtype), ids], axis=0)


def distinct_ids(
    inputs: tf.Tensor, lengths: tf.Tensor | None, ids: CharacterIds | TokenIds
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Prepares a batch, as returned by `checked_inputs`, for a token encoder.

    Returns:
        ids: int32 (distinct token, width), or (distinct token,) without a character CNN.
        index: int32 (batch, token). The index of each token.
        lengths: int32 (batch,). Number of real tokens per sentence.
    """
    if inputs.dtype == tf.string:
        tokens, lengths = token_batch(inputs, lengths)
        distinct, index = tf.unique(tf.reshape(tokens, (-1,)))
        index = tf.reshape(index, tf.shape(tokens)) + NUM_SPECIAL_TOKENS
        return ids.of_strings(distinct), index, lengths
    distinct, index = distinct_rows(ids.of_ids(inputs))
    real = is_token(inputs)
    index = ops.reshape(index, ops.shape(real)) + NUM_SPECIAL_TOKENS
    return distinct, index, count_tokens(real) if lengths is None else lengths


def distinct_rows(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The distinct rows of ids, int (row, …), and the index of each row among them, int (row,)."""
    if is_portable() or keras.config.backend() != "tensorflow":
        return ids, ops.arange(ops.shape(ids)[0], dtype="int32")
    with tf.device("CPU:0"):  # GPUs have no kernel for more than one axis
        unique = tf.raw_ops.UniqueV2(x=ids, axis=[0])
    return tf.ensure_shape(unique.y, (None, *ids.shape[1:])), unique.idx


def add_boundaries(index: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds `<S>` before and `</S>` after each sentence.

    `index`: int (batch, token), see `distinct_ids`. Returns int (batch, token + 2) and its mask.
    """
    index = ops.pad(index, [[0, 0], [1, 1]], constant_values=_BOS_INDEX)  # (batch, token + 2)
    position = ops.arange(ops.shape(index)[1], dtype="int32")
    end = lengths[:, None] + 1
    index = ops.where(position == end, _EOS_INDEX, index)
    mask = position <= end
    return ops.where(mask, index, _NO_TOKEN_INDEX), mask


def distinct_window_tokens(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the distinct tokens of windows of running text, see `LMWindows`.

    Returns the tokens, string (distinct token,), padded with `""` to a multiple of 64, because
    TensorFlow prepares its kernels again for every new shape; and the index of each token.
    """
    distinct, index = tf.unique(tf.reshape(inputs, (-1,)))
    distinct = tf.pad(distinct, [[0, -tf.size(distinct) % _TOKEN_COUNT_MULTIPLE]])
    index = tf.reshape(index, tf.shape(inputs)) + NUM_SPECIAL_TOKENS
    index = boundary_or(inputs, _BOS_INDEX, _EOS_INDEX, index)
    return distinct, tf.ensure_shape(index, inputs.shape)


def _checked_range(ids: tf.Tensor, maximum: int) -> tf.Tensor:
    valid = ops.all(ops.logical_and(ids >= 0, ids <= maximum))
    return checked(ids, valid, f"Ids must be between 0 and {maximum}. Received", ids)
