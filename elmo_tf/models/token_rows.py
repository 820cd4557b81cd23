"""tokens ─► rows: each distinct token of a batch once, as ids, and where in the batch it stands."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from elmo_tf.config import BiLMConfig
from elmo_tf.models.token_encoder import cut_characters
from elmo_tf.text.char_ids import PAD, boundary_char_ids, char_ids
from elmo_tf.text.inputs import checked, is_token, row_lengths, token_batch
from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary
from elmo_tf.text.windows import boundary_or

# Rows before the encoded tokens of a batch: no token, <S>, </S>. No other module knows their order.
_NO_TOKEN_ROW, _BOS_ROW, _EOS_ROW, NUM_SPECIAL_ROWS = range(4)

_WINDOW_TOKENS_ROUNDED_TO = 64


def distinct_rows(
    inputs: tf.Tensor, lengths: tf.Tensor | None, config: BiLMConfig, vocabulary: Vocabulary | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """What a token encoder has to read for a batch.

    Args:
        inputs, lengths: as `checked_inputs` gives them.
        config, vocabulary: of the biLM.

    Returns:
        rows: int32 (distinct token, char), or (distinct token,) without a character CNN. Of strings
            each token comes once; ids come as they are.
        index: int32 (batch, token), places in `rows` when three rows are put before them.
        lengths: int32 (batch,). Real tokens of each sentence.

    Raises:
        ValueError: inputs that do not suit the biLM, see `BiLM`.
    """
    if inputs.dtype == tf.string:
        tokens, lengths = token_batch(inputs, lengths)
        distinct, index = tf.unique(tf.reshape(tokens, (-1,)))
        index = tf.reshape(index, tf.shape(tokens)) + NUM_SPECIAL_ROWS
        return rows_of_strings(distinct, config, vocabulary), index, lengths
    check = _checked_token_ids if config.char_cnn is None else _checked_char_ids
    ids = check(inputs, config)
    real = is_token(ids)
    lengths = row_lengths(real, lengths)
    index = tf.reshape(tf.range(tf.size(real)), tf.shape(real)) + NUM_SPECIAL_ROWS
    if config.char_cnn is None:
        return tf.reshape(ids, (-1,)), index, lengths
    return _padded(tf.reshape(ids, (-1, tf.shape(ids)[-1])), config), index, lengths


def rows_of_strings(
    tokens: tf.Tensor, config: BiLMConfig, vocabulary: Vocabulary | None
) -> tf.Tensor:
    """Rows of strings (token,): char ids, or without a character CNN token ids. Zeros for `""`."""
    if config.char_cnn is not None:
        return char_ids(tokens, config.char_cnn.max_chars)
    if vocabulary is None:
        raise ValueError(
            "This biLM looks tokens up in a vocabulary, and was given none: pass "
            "`vocabulary=`, or token ids instead of strings."
        )
    ids = tf.cast(vocabulary.lookup(tokens), tf.int32) + 1
    return tf.where(is_token(tokens), ids, 0)


def with_boundary_rows(rows: tf.Tensor, config: BiLMConfig) -> tf.Tensor:
    """The rows of `<S>` and `</S>`, then `rows`, without padding that changes no vector."""
    if config.char_cnn is None:
        return tf.concat([tf.constant([BOS_ID + 1, EOS_ID + 1]), rows], axis=0)
    boundaries = boundary_char_ids(config.char_cnn.max_chars)
    return cut_characters(tf.concat([boundaries, rows], axis=0), config.char_cnn.max_width)


def add_boundaries(index: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts `<S>` before and `</S>` behind each sentence.

    Args:
        index: int (batch, token).
        lengths: int (batch,).

    Returns:
        int (batch, token + 2), and the mask, bool of the same shape.
    """
    index = tf.pad(index, [[0, 0], [1, 1]], constant_values=_BOS_ROW)  # (batch, token + 2)
    position = tf.range(tf.shape(index)[1])
    end = lengths[:, tf.newaxis] + 1
    index = tf.where(position == end, _EOS_ROW, index)
    mask = position <= end
    return tf.where(mask, index, _NO_TOKEN_ROW), mask


def sentence_index(sentences: Sequence[np.ndarray], num_rows: int, width: int) -> np.ndarray:
    """The rows of whole sentences, each between its boundaries, in NumPy.

    Args:
        sentences: each the rows of its tokens, int (token,).
        num_rows: int >= the number of sentences. Further rows are sentences without tokens.
        width: int >= the tokens of each sentence.

    Returns:
        int32 (num_rows, width + 2).
    """
    index = np.full((num_rows, width + 2), _NO_TOKEN_ROW, np.int32)
    index[:, 0], index[:, 1] = _BOS_ROW, _EOS_ROW
    for row, tokens in zip(index, sentences, strict=False):
        row[1 : len(tokens) + 1] = tokens
        row[len(tokens) + 1] = _EOS_ROW
    return index


def window_rows(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The distinct tokens of windows of running text, which hold boundaries among their tokens.

    Args:
        inputs: string of any shape, see `lm_windows`.

    Returns:
        string (distinct token,), filled up with `""` to few distinct sizes: TensorFlow prepares
        its kernels anew for every shape; and int32 of the shape of `inputs`, the row of each token
        after the special rows.
    """
    distinct, index = tf.unique(tf.reshape(inputs, (-1,)))
    distinct = tf.pad(distinct, [[0, -tf.size(distinct) % _WINDOW_TOKENS_ROUNDED_TO]])
    index = tf.reshape(index, tf.shape(inputs)) + NUM_SPECIAL_ROWS
    index = boundary_or(inputs, _BOS_ROW, _EOS_ROW, index)
    return distinct, tf.ensure_shape(index, inputs.shape)


def _checked_token_ids(ids: tf.Tensor, config: BiLMConfig) -> tf.Tensor:
    if len(ids.shape) != 2:
        raise ValueError(
            "This biLM has no character CNN: it reads strings, or token ids of shape "
            f"(batch, token). Received: ids of shape {tuple(ids.shape)}."
        )
    return _checked_range(ids, config.num_tokens)


def _checked_char_ids(ids: tf.Tensor, config: BiLMConfig) -> tf.Tensor:
    if len(ids.shape) != 3:
        raise ValueError(
            "This biLM reads strings, or char ids of shape (batch, token, char). "
            f"Received: ids of shape {tuple(ids.shape)}."
        )
    least, most = 3, config.char_cnn.max_chars
    message = f"A row of char ids must have {least} to {most} characters"
    width = ids.shape[-1]
    if width is None:
        width = tf.shape(ids)[-1]
        fits = tf.logical_and(width >= least, width <= most)
        ids = checked(ids, fits, f"{message}, not", width)
    elif not least <= width <= most:
        raise ValueError(f"{message}. Received: ids of shape {tuple(ids.shape)}.")
    return _checked_range(ids, PAD)


def _checked_range(ids: tf.Tensor, most: int) -> tf.Tensor:
    valid = tf.reduce_all(tf.logical_and(ids >= 0, ids <= most))
    return checked(ids, valid, f"Ids must be between 0 and {most}, not", ids)


def _padded(rows: tf.Tensor, config: BiLMConfig) -> tf.Tensor:
    """Char ids (token, char) as (token, max_chars), as if they had been spelt that wide.

    Padding is a character that the maxima see: a row must not lack it, nor have zeros in its place.
    """
    missing = config.char_cnn.max_chars - tf.shape(rows)[1]
    return tf.pad(tf.where(rows == 0, PAD, rows), [[0, 0], [0, missing]], constant_values=PAD)
