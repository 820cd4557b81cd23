"""What counts as sentences, for everything that takes many of them, and their tokens."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.text.inputs import refuse_sentences_as_tokens, refuse_table
from elmo_tf.text.sentences import decode, encode

Sentence = str | bytes | Sequence[str | bytes]  # a text, or a list of tokens


def sentence_items(sentences: Any, name: str = "sentences") -> Iterable[Sentence]:
    """Checks that a value is a collection of sentences, and returns one that yields them.

    Args:
        sentences: any iterable of sentences: a list, a generator, an array, a column of a data
            frame (pandas, pyarrow), a string tensor (batch,), tokens (batch, token) padded with
            `""`, a ragged tensor, or a `tf.data.Dataset` of strings. Its items are not checked.
        name: of the argument, for the errors.

    Raises:
        TypeError: `sentences` is a single string, a table, or no collection of sentences.
        ValueError: an array (batch, token) holds sentences instead of tokens.
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(
            f"`{name}` must be several sentences, not one string: {sentences!r:.60}. Put it in a "
            "list."
        )
    refuse_table(sentences, name)
    if isinstance(sentences, tf.data.Dataset):
        if sentences.element_spec != tf.TensorSpec((), tf.string):
            raise TypeError(
                f"A dataset of `{name}` must have one string per element (after a batch, call "
                f"`unbatch()`). Received elements of: {sentences.element_spec}"
            )
        return sentences.as_numpy_iterator()
    if hasattr(sentences, "to_pylist"):  # pyarrow
        return sentences.to_pylist()
    if isinstance(sentences, tf.RaggedTensor):
        return sentences.to_list()
    refuse_sentences_as_tokens(sentences)
    if isinstance(sentences, tf.Tensor):
        sentences = sentences.numpy()
    if isinstance(sentences, np.ndarray) and sentences.ndim:
        rows = sentences.tolist()
        return rows if sentences.ndim == 1 else [_without_padding(row) for row in rows]
    if not isinstance(sentences, Iterable):
        raise TypeError(
            f"`{name}` must be sentences: a list of strings or of lists of tokens, for example. "
            f"Received: {sentences!r:.60} (of type {type(sentences).__name__})"
        )
    return sentences


def _without_padding(tokens: list) -> list:
    while tokens and tokens[-1] in ("", b""):
        tokens.pop()
    return tokens


def token_bytes(index: int, sentence: Any) -> list[bytes]:
    """The tokens of a sentence as UTF-8; `index` identifies the sentence in error messages."""
    tokens = [encode(token) for token in tokens_of(f"Sentence {index}", sentence)]
    if b"" in tokens:
        raise ValueError(f"Sentence {index} contains an empty token: {sentence!r}.")
    return tokens


def tokens_of(name: str, sentence: Any) -> Sequence[str | bytes]:
    """The tokens of a sentence, which is split unless it is a list; errors call it `name`."""
    if isinstance(sentence, str | bytes):
        return decode(sentence).split()
    if not isinstance(sentence, list | tuple | np.ndarray) or not all(
        isinstance(token, str | bytes) for token in sentence
    ):
        raise TypeError(
            f"A sentence must be a str or a list of tokens (str). {name} is {sentence!r}."
        )
    return sentence
