"""text ─► tokens: the first arrow. What counts as a sentence, and where it is cut into tokens."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

# Every code point at which `str.split()` cuts: Unicode's separators, and those control characters
# that Python counts as white space.
_WHITE_SPACE = r"[\pZ\x{85}\x1c-\x1f\s\v]+"


def split_tokens(sentences: Any) -> tf.RaggedTensor:
    """Cuts sentences into tokens exactly where Python's `str.split()` does, in the graph.

    Args:
        sentences: string (batch,).

    Returns:
        string, ragged (batch, token). A sentence of white space alone has no token.
    """
    return tf.strings.split(tf.strings.regex_replace(sentences, _WHITE_SPACE, " "))


def has_whitespace(strings: tf.Tensor) -> tf.Tensor:
    """Whether strings contain a character at which `split_tokens` cuts: bool, of their shape."""
    return tf.strings.regex_replace(strings, _WHITE_SPACE, "") != strings


def string_tensor(strings: Any) -> tf.Tensor | tf.RaggedTensor:
    """Turns Python strings into a tensor of bytes.

    Args:
        strings: a `str` or `bytes`, or lists of them nested to any depth, of any lengths; or
            anything that TensorFlow takes as a string tensor already.

    Returns:
        A string tensor of the same shape, ragged if inner lengths differ. Lone surrogates of a
        `str` become the bytes that Python's `surrogateescape` stands for.

    Raises:
        TypeError: something in it is not a string.
        ValueError: strings stand beside lists.
    """
    if isinstance(strings, np.ndarray):
        strings = strings.tolist()  # a string alone, if it has no axes
    if isinstance(strings, tf.Tensor | tf.RaggedTensor):
        tensor = strings
    elif isinstance(strings, str | bytes):
        tensor = tf.constant(encode(strings))
    else:
        strings = _encode_nested(strings)
        to_tensor = tf.constant if _is_uniform(strings) else tf.ragged.constant
        tensor = to_tensor(strings, dtype=tf.string)
    if tensor.dtype != tf.string:
        raise TypeError(f"Strings are needed. Received: a tensor of {tensor.dtype.name}.")
    return tensor


def encode(string: str | bytes) -> bytes:
    """UTF-8 bytes of a string; `bytes` pass through, valid UTF-8 or not.

    A lone surrogate in U+DC80 to U+DCFF, which is how Python's `surrogateescape` reads an invalid
    byte, becomes that byte again. Any other lone surrogate is written as its three bytes.
    """
    if isinstance(string, bytes):
        return string
    try:
        return string.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return b"".join(map(_encode_character, string))


def _encode_character(character: str) -> bytes:
    stands_for_a_byte = "\udc80" <= character <= "\udcff"
    return character.encode("utf-8", "surrogateescape" if stands_for_a_byte else "surrogatepass")


def _encode_nested(strings: Any) -> list:
    if not isinstance(strings, Iterable):
        raise TypeError(
            f"Strings, or nested lists of strings, are needed. Received: {strings!r} "
            f"(of type {type(strings).__name__})."
        )
    return [
        encode(string) if isinstance(string, str | bytes) else _encode_nested(string)
        for string in strings
    ]


def _is_uniform(rows: list) -> bool:
    """Whether nested lists have one depth, and one length at each depth."""
    lists = [row for row in rows if isinstance(row, list)]
    if len(lists) < len(rows):
        return not lists
    if len({len(row) for row in lists}) > 1:
        return False
    return not lists or _is_uniform([item for row in lists for item in row])
