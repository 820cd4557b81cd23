"""tokens ─► char ids: begin of word, characters, end of word, padding; ids begin at 1."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.text.reading import encode

DEFAULT_MAX_CHARS = 50


class Spelling:
    """Converts tokens to the ids that a character CNN reads.

    The ids of a token are `begin_word, characters[:max_chars - 2], end_word, pad, pad, …`, or all
    zeros for `""`. Here, characters are UTF-8 bytes, as in the published English checkpoints.
    """

    num_characters = 261  # number of ids: 0 marks padding tokens, and byte b has id b + 1
    bos, eos, begin_word, end_word, pad = range(257, 262)
    num_columns = 0  # ids of a token before those of the characters
    boundary_words: Sequence[Sequence[int]] = ((), ())  # those of `<S>` and `</S>`

    def characters(self, tokens: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The ids of the first `count` characters of tokens, string (token,).

        Returns int32 (token, count), with any values after a token; and the number of characters,
        int32 (token,).
        """
        # NUL is a valid byte, so the length, not the value, determines the padding.
        values = tf.io.decode_raw(tokens, tf.uint8, fixed_length=count)
        return tf.cast(values, tf.int32) + 1, tf.strings.length(tokens)

    def ids_of(self, tokens: tf.Tensor, max_chars: int) -> tf.Tensor:
        """Spells tokens, string (token,) → int32 (token, num_columns + max_chars)."""
        ids, length = self.characters(tokens, max_chars - 2)
        length = tf.minimum(length, max_chars - 2)[:, tf.newaxis]
        position = tf.range(max_chars)
        edge = tf.zeros_like(ids[:, :1])
        ids = tf.concat([edge, ids, edge], axis=-1)  # (token, max_chars)
        ids = tf.where(position == 0, self.begin_word, ids)
        ids = tf.where(position == length + 1, self.end_word, ids)
        ids = tf.where(position > length + 1, self.pad, ids)
        return tf.where(length > 0, ids, 0)

    def boundary_ids(self, max_chars: int) -> tf.Tensor:
        """The ids of `<S>` and `</S>`, int32 (2, num_columns + max_chars)."""
        rest = [self.end_word, *[self.pad] * (max_chars - 3)]
        edges = zip(self.boundary_words, (self.bos, self.eos), strict=True)
        ids = [[*word, self.begin_word, edge, *rest] for word, edge in edges]
        return tf.constant(ids, dtype=tf.int32)

    def char_ids(self, tokens: Any, max_chars: int) -> tf.Tensor | tf.RaggedTensor:
        """Spells strings of any shape. Arguments and errors: see the function `char_ids`."""
        tokens = string_tensor(tokens)
        if isinstance(tokens, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.char_ids, tokens, max_chars)
        width = self.num_columns + max_chars
        ids = self.ids_of(tf.reshape(tokens, (-1,)), max_chars)
        ids = tf.reshape(ids, tf.concat([tf.shape(tokens), [width]], axis=0))
        return tf.ensure_shape(ids, tokens.shape.concatenate([width]))


BYTES = Spelling()


def char_ids(tokens: Any, max_chars: int = DEFAULT_MAX_CHARS) -> tf.Tensor | tf.RaggedTensor:
    """Converts tokens to the ids that a character CNN of bytes reads.

    The ids of a token are `259, bytes[:max_chars - 2], 260, 261, 261, …`, where 259 and 260 mark
    the ends of the word. For a biLM with a `Lexicon` use `BiLM.char_ids`.

    Args:
        tokens: strings of any shape: a `str`, nested lists, a tensor or a ragged tensor. Python
            strings are encoded as UTF-8 with `surrogateescape`.
        max_chars: int >= 3. Ids per token; longer tokens are truncated.

    Returns:
        int32 (…, max_chars) with values 1 to 261; all zeros for `""`. Ragged if `tokens` is. Works
        eagerly and in a graph.

    Raises:
        ValueError: `max_chars` is below 3.
        TypeError: `tokens` contains something other than strings.

    Example:
        >>> elmo_tf.char_ids(["cat", ""], max_chars=6).numpy().tolist()
        [[259, 100, 98, 117, 260, 261], [0, 0, 0, 0, 0, 0]]

    Source: Peters et al. 2018 and the published checkpoints. Ids are those of the original plus
    one, so that 0 can mark padding.
    """
    if max_chars < 3:
        raise ValueError(
            f"`max_chars` must be at least 3: two word boundaries and a byte. Received: {max_chars}"
        )
    return BYTES.char_ids(tokens, max_chars)


def string_tensor(strings: Any) -> tf.Tensor | tf.RaggedTensor:
    """Converts Python strings to a string tensor, ragged if inner lengths differ; see `encode`.

    `strings` are a `str` or `bytes`, nested lists of them, an array, or a string tensor.
    `TypeError` if an item is not a string, `ValueError` if a list contains strings and lists.
    """
    if not isinstance(strings, tf.Tensor | tf.RaggedTensor):
        strings = _encode_nested(strings)
        # An array of objects contains lists if their lengths or depths differ.
        is_ragged = any(isinstance(item, list) for item in np.array(strings, object).flat)
        strings = (tf.ragged.constant if is_ragged else tf.constant)(strings, dtype=tf.string)
    if strings.dtype != tf.string:
        raise TypeError(f"Strings are required. Received: a tensor of {strings.dtype.name}.")
    return strings


def _encode_nested(strings: Any) -> bytes | list:
    if isinstance(strings, np.ndarray):
        strings = strings.tolist()  # a single string from a 0-d array
    if isinstance(strings, str | bytes):
        return encode(strings)
    if not isinstance(strings, Iterable):
        raise TypeError(
            f"Strings or nested lists of strings are required. Received: {strings!r} "
            f"(of type {type(strings).__name__})."
        )
    return list(map(_encode_nested, strings))
