"""tokens ─► rows: the distinct tokens of a batch as ids, and the row of each token."""

import numpy as np
import tensorflow as tf

from elmo_tf.config import CharCNNConfig
from elmo_tf.models.token_encoder import cut_characters
from elmo_tf.text.char_ids import BYTES, Spelling
from elmo_tf.text.inputs import checked, count_tokens, is_token, token_batch
from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary
from elmo_tf.text.windows import boundary_or

# Special rows before the encoded tokens of a batch. Only this module depends on their order.
_NO_TOKEN_ROW, _BOS_ROW, _EOS_ROW, NUM_SPECIAL_ROWS = range(4)

_TOKEN_COUNT_MULTIPLE = 64


class CharacterRows:
    """Rows of characters, for a `TokenEncoder`.

    Args:
        char_cnn: the configuration of the character CNN.
        spelling: a `Lexicon`, or None for bytes.
    """

    def __init__(self, char_cnn: CharCNNConfig, spelling: Spelling | None = None):
        self._char_cnn = char_cnn
        self.spelling = spelling or BYTES

    @property
    def width(self) -> int:
        """Number of ids of a row."""
        return self.spelling.num_columns + self._char_cnn.max_chars

    def of_strings(self, tokens: tf.Tensor) -> tf.Tensor:
        """Converts strings (token,) to int32 (token, width). Zeros for `""`."""
        return self.spelling.rows(tokens, self._char_cnn.max_chars)

    def of_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Checks ids (batch, token, char) and pads them to (batch · token, width).

        The character CNN takes its maxima over the padding too, so all rows must be padded alike.

        Raises:
            ValueError: the ids do not match the biLM, see `BiLM`.
        """
        if len(ids.shape) != 3:
            raise ValueError(
                "This biLM reads strings, or char ids of shape (batch, token, char). "
                f"Received: ids of shape {tuple(ids.shape)}."
            )
        first, most = self.spelling.num_columns, self._char_cnn.max_chars
        message = f"Char ids must have 3 to {most} characters per token"
        if first:
            message += ", after the id of the word"
        width = ids.shape[-1]
        if width is None:
            width = tf.shape(ids)[-1]
            fits = tf.logical_and(width >= first + 3, width <= first + most)
            ids = checked(ids, fits, f"{message}. Received", width)
        elif not first + 3 <= width <= first + most:
            raise ValueError(f"{message}. Received: ids of shape {tuple(ids.shape)}.")
        rows = tf.reshape(ids, (-1, width))
        words, characters = rows[:, :first], rows[:, first:]
        characters = _checked_range(characters, self.spelling.num_characters)
        pad = self.spelling.pad
        characters = tf.where(characters == 0, pad, characters)
        missing = [[0, 0], [0, self.width - width]]
        characters = tf.pad(characters, missing, constant_values=pad)
        if not first:
            return characters
        return tf.concat([_checked_range(words, self.spelling.num_words), characters], axis=1)

    def with_boundaries(self, rows: tf.Tensor) -> tf.Tensor:
        """Prepends the rows of `<S>` and `</S>`, and removes unnecessary character padding."""
        boundaries = self.spelling.boundary_rows(self._char_cnn.max_chars)
        rows = tf.concat([boundaries, rows], axis=0)
        first = self.spelling.num_columns
        cut = cut_characters(rows[:, first:], self._char_cnn.max_width, self.spelling.pad)
        return tf.concat([rows[:, :first], cut], axis=1) if first else cut


class TokenRows:
    """Rows that are ids of tokens, for a `TokenEmbedding`.

    Args:
        num_tokens: int. Number of rows of the table.
        vocabulary: for strings; or None.
    """

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
        """Checks ids (batch, token) and flattens them. Errors: see `CharacterRows.of_ids`."""
        if len(ids.shape) != 2:
            raise ValueError(
                "A biLM without a character CNN reads strings, or token ids of shape (batch, "
                f"token). Received: ids of shape {tuple(ids.shape)}."
            )
        return tf.reshape(_checked_range(ids, self._num_tokens), (-1,))

    def with_boundaries(self, rows: tf.Tensor) -> tf.Tensor:
        """Prepends the rows of `<S>` and `</S>`."""
        return tf.concat([tf.constant([BOS_ID + 1, EOS_ID + 1]), rows], axis=0)


def distinct_rows(
    inputs: tf.Tensor, lengths: tf.Tensor | None, rows: CharacterRows | TokenRows
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Prepares a batch for a token encoder.

    Args:
        inputs, lengths: as returned by `checked_inputs`.
        rows: those of the biLM.

    Returns:
        rows: int32 (distinct token, width), or (distinct token,) without a character CNN. Equal
            strings share a row; ids are not deduplicated.
        index: int32 (batch, token). The row of each token after the `NUM_SPECIAL_ROWS` rows.
        lengths: int32 (batch,). Number of real tokens per sentence.

    Raises:
        ValueError: the inputs do not match the biLM, see `BiLM`.
    """
    if inputs.dtype == tf.string:
        tokens, lengths = token_batch(inputs, lengths)
        distinct, index = tf.unique(tf.reshape(tokens, (-1,)))
        index = tf.reshape(index, tf.shape(tokens)) + NUM_SPECIAL_ROWS
        return rows.of_strings(distinct), index, lengths
    flat = rows.of_ids(inputs)
    real = is_token(inputs)
    if lengths is None:
        lengths = count_tokens(real)
    index = tf.reshape(tf.range(tf.size(real)), tf.shape(real)) + NUM_SPECIAL_ROWS
    return flat, index, lengths


def add_boundaries(index: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds `<S>` before and `</S>` after each sentence.

    Args:
        index: int (batch, token), see `distinct_rows`.
        lengths: int (batch,).

    Returns:
        index, int (batch, token + 2), and its mask, bool of the same shape.
    """
    index = tf.pad(index, [[0, 0], [1, 1]], constant_values=_BOS_ROW)  # (batch, token + 2)
    position = tf.range(tf.shape(index)[1])
    end = lengths[:, tf.newaxis] + 1
    index = tf.where(position == end, _EOS_ROW, index)
    mask = position <= end
    return tf.where(mask, index, _NO_TOKEN_ROW), mask


def with_boundaries(tokens: np.ndarray) -> np.ndarray:
    """Adds the rows of `<S>` and `</S>` to those of a sentence's tokens, int (token,)."""
    return np.concatenate([[_BOS_ROW], tokens, [_EOS_ROW]])


def window_rows(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the distinct tokens of windows of running text, which include boundaries.

    Args:
        inputs: string of any shape, see `lm_windows`.

    Returns:
        tokens: string (distinct token,), padded with `""` to a multiple of 64, because TensorFlow
            prepares its kernels again for every new shape.
        index: int32 of the shape of `inputs`. The row of each token after the special rows.
    """
    distinct, index = tf.unique(tf.reshape(inputs, (-1,)))
    distinct = tf.pad(distinct, [[0, -tf.size(distinct) % _TOKEN_COUNT_MULTIPLE]])
    index = tf.reshape(index, tf.shape(inputs)) + NUM_SPECIAL_ROWS
    index = boundary_or(inputs, _BOS_ROW, _EOS_ROW, index)
    return distinct, tf.ensure_shape(index, inputs.shape)


def _checked_range(ids: tf.Tensor, most: int) -> tf.Tensor:
    valid = tf.reduce_all(tf.logical_and(ids >= 0, ids <= most))
    return checked(ids, valid, f"Ids must be between 0 and {most}. Received", ids)
