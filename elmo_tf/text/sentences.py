"""Sentences ─► whitespace-separated tokens, in TensorFlow's graph."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.text.reading import encode

# A run of whitespace, exactly as in `str.split()`, for TensorFlow's regular expressions.
WHITESPACE = r"[\pZ\x{85}\x1c-\x1f\s\v]+"


def split_tokens(sentences: Any) -> tf.RaggedTensor:
    """Splits sentences into tokens exactly as Python's `str.split()` does, in the graph.

    Args:
        sentences: string (batch,).

    Returns:
        string, ragged (batch, token). A sentence of whitespace only has no tokens.
    """
    return tf.strings.split(tf.strings.regex_replace(sentences, WHITESPACE, " "))


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
