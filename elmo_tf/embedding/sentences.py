"""Checks of the sentences passed to an `Embedder`, and their tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmo_tf.text.inputs import refuse_sentences_as_tokens
from elmo_tf.text.sentences import decode, encode

Sentence = str | Sequence[str]


def refuse_tables(sentences: Any) -> None:
    """Refuses tables, whose iteration yields column names, and arrays of shape (batch, 1)."""
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        raise TypeError(
            "`sentences` must be sentences, not a table. Pass one column, for example "
            f'df["text"]. Received: {type(sentences).__name__}'
        )
    refuse_sentences_as_tokens(sentences)


def token_bytes(number: int, sentence: Any) -> list[bytes]:
    """The tokens of a sentence as UTF-8; `number` identifies the sentence in error messages."""
    tokens = [encode(token) for token in tokens_of(f"Sentence {number}", sentence)]
    if b"" in tokens:
        raise ValueError(f"Sentence {number} contains an empty token: {sentence!r}.")
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
