"""Sentences ─► whitespace-separated tokens, in TensorFlow's graph."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.text.reading import encode

# A run of whitespace, exactly as in `str.split()`, for TensorFlow's regular expressions.
WHITESPACE = r"[\pZ\x{85}\x1c-\x1f\s\v]+"
# The same in UTF-8: characters of one byte, and of several bytes.
_SPACES = b"\t\v\f\r\x1c\x1d\x1e\x1f"
_WIDE_SPACES = re.compile(
    rb"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80"
)
_TO_SPACE = bytes.maketrans(_SPACES, b" " * len(_SPACES))


def split_tokens(sentences: Any) -> tf.RaggedTensor:
    """Splits sentences into tokens exactly as Python's `str.split()` does, in the graph.

    Args:
        sentences: string (batch,).

    Returns:
        string, ragged (batch, token). A sentence of whitespace only has no tokens.
    """
    return tf.strings.split(tf.strings.regex_replace(sentences, WHITESPACE, " "))


def count_tokens(lines: list[bytes]) -> tuple[bytes, list[int]]:
    """Counts the tokens of lines of UTF-8, without splitting them.

    Returns the lines, joined by newlines, with spaces as the only whitespace; and the number of
    tokens of each line, as `str.split()` finds them.
    """
    lines = [line if line.isascii() else _WIDE_SPACES.sub(b" ", line) for line in lines]
    text = b"\n".join(lines).translate(_TO_SPACE)
    characters = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    newlines = np.flatnonzero(characters == ord("\n"))
    is_space = characters == ord(" ")
    is_space[newlines] = True
    tokens = np.flatnonzero(is_space[:-1] > is_space[1:])  # the position before each token
    return text, np.diff(np.searchsorted(tokens, newlines)).tolist()


def has_whitespace(strings: tf.Tensor) -> tf.Tensor:
    """Whether strings contain whitespace: bool, of their shape."""
    return tf.strings.regex_replace(strings, WHITESPACE, "") != strings


def string_tensor(strings: Any) -> tf.Tensor | tf.RaggedTensor:
    """Converts Python strings to a string tensor, ragged if inner lengths differ; see `encode`.

    `strings` are a `str` or `bytes`, nested lists of them, an array, or a string tensor.

    Raises:
        TypeError: an item is not a string.
        ValueError: a list contains both strings and lists.
    """
    if isinstance(strings, np.ndarray):
        strings = strings.tolist()  # a single string from a 0-d array
    if isinstance(strings, tf.Tensor | tf.RaggedTensor):
        tensor = strings
    elif isinstance(strings, str | bytes):
        tensor = tf.constant(encode(strings))
    else:
        strings = _encode_nested(strings)
        # An array of objects contains lists if their lengths or depths differ.
        is_ragged = any(isinstance(item, list) for item in np.array(strings, object).flat)
        tensor = (tf.ragged.constant if is_ragged else tf.constant)(strings, dtype=tf.string)
    if tensor.dtype != tf.string:
        raise TypeError(f"Strings are required. Received: a tensor of {tensor.dtype.name}.")
    return tensor


def _encode_nested(strings: Any) -> list:
    if not isinstance(strings, Iterable):
        raise TypeError(
            f"Strings or nested lists of strings are required. Received: {strings!r} "
            f"(of type {type(strings).__name__})."
        )
    return [
        encode(string) if isinstance(string, str | bytes) else _encode_nested(string)
        for string in strings
    ]
