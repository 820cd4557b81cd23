"""tokens ─► char ids: UTF-8 bytes between two word boundaries, padded, plus one."""

from typing import Any

import tensorflow as tf

from elmo_tf.text.sentences import string_tensor

# 0 marks padding tokens, and byte b has id b + 1.
BOS = 257
EOS = 258
BEGIN_WORD = 259
END_WORD = 260
PAD = 261

DEFAULT_MAX_CHARS = 50


def char_ids(tokens: Any, max_chars: int = DEFAULT_MAX_CHARS) -> tf.Tensor | tf.RaggedTensor:
    """Converts tokens to the ids that a character CNN reads.

    A row is `BEGIN_WORD, bytes[:max_chars - 2], END_WORD, PAD, PAD, …`.

    Args:
        tokens: strings of any shape: a `str`, nested lists, a tensor or a ragged tensor. Python
            strings are encoded as UTF-8 with `surrogateescape`.
        max_chars: int >= 3. Length of a row; longer tokens are truncated.

    Returns:
        int32 (…, max_chars) with values 1 to 261; all zeros for `""`. Ragged if `tokens` is. Works
        eagerly and in a graph.

    Raises:
        ValueError: `max_chars` is below 3.
        TypeError: `tokens` contains something other than strings.

    Source: Peters et al. 2018 and the published checkpoints. Ids are those of the original plus
    one, so that 0 can mark padding.
    """
    if max_chars < 3:
        raise ValueError(
            f"`max_chars` must be at least 3: two word boundaries and a byte. Received: {max_chars}"
        )
    tokens = string_tensor(tokens)
    if isinstance(tokens, tf.RaggedTensor):
        return tf.ragged.map_flat_values(_rows, tokens, max_chars)
    return _rows(tokens, max_chars)


def boundary_char_ids(max_chars: int = DEFAULT_MAX_CHARS) -> tf.Tensor:
    """Char ids of `<S>` and `</S>`, int32 (2, max_chars)."""
    rows = [[BEGIN_WORD, boundary, END_WORD] + [PAD] * (max_chars - 3) for boundary in (BOS, EOS)]
    return tf.constant(rows, dtype=tf.int32)


def _rows(tokens: tf.Tensor, max_chars: int) -> tf.Tensor:
    num_bytes = max_chars - 2
    # NUL is a valid byte, so the length, not the value, determines the padding.
    values = tf.io.decode_raw(tokens, tf.uint8, fixed_length=num_bytes)  # (…, max_chars - 2)
    values = tf.cast(values, tf.int32) + 1
    length = tf.minimum(tf.strings.length(tokens), num_bytes)[..., tf.newaxis]
    position = tf.range(max_chars)
    edge = tf.zeros_like(values[..., :1])
    values = tf.concat([edge, values, edge], axis=-1)  # (…, max_chars), of any rank
    row = tf.where(position == 0, BEGIN_WORD, values)
    row = tf.where(position == length + 1, END_WORD, row)
    row = tf.where(position > length + 1, PAD, row)
    return tf.where(length > 0, row, 0)
