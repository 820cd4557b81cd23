"""sentences ─► windows that hold whole sentences, for what starts each one from zero state."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.sentences import encode
from elmo_tf.text.windows import BOS, EOS

Sentence = str | Sequence[str]


def directions(model: LanguageModel) -> tuple[str, ...]:
    """The names of the directions that a language model has, in the order of its outputs."""
    return ("forward", "backward")[: model.bilm.config.num_directions]


def sentence_tokens(sentence: Any, name: str) -> list[str]:
    """The tokens of a sentence.

    Args:
        sentence: a `str`, split where `str.split()` would, or a list of tokens.
        name: what an error calls it.

    Raises:
        TypeError: `sentence` is neither.
        ValueError: a token of a list is empty or holds white space.
    """
    if isinstance(sentence, str):
        return sentence.split()
    if not isinstance(sentence, list | tuple | np.ndarray) or not all(
        isinstance(token, str) for token in sentence
    ):
        raise TypeError(
            f"A sentence must be a str or a list of tokens (str). {name} is {sentence!r}."
        )
    for token in sentence:
        if token.split() != [token]:
            raise ValueError(
                f"A token must not be empty nor hold white space. {name} holds {token!r}. "
                "Pass the sentence as one str to have it split."
            )
    return list(sentence)


def sentence_window(
    sentences: Sequence[Sequence[str]], rows: int, width: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """One window with a whole sentence in each row, as `lm_windows` would write it.

    Forward inputs are `<S> w1 … wn` and targets `w1 … wn </S>`; backward inputs `</S> wn … w1` and
    targets `wn … w1 <S>`. Padding stands behind both, where it changes no real token.

    Args:
        sentences: lists of tokens.
        rows: int >= the number of sentences. Lanes; what is left over is padding.
        width: int > the tokens of each sentence.

    Returns:
        inputs and targets, string (direction, row, token), padded with `""`.
    """
    window = np.full((2, 2, rows, width), b"", object)  # (inputs or targets, direction, …)
    for row, tokens in enumerate(sentences):
        text = [BOS.encode(), *map(encode, tokens), EOS.encode()]
        for direction, stream in enumerate((text, text[::-1])):
            window[0, direction, row, : len(text) - 1] = stream[:-1]
            window[1, direction, row, : len(text) - 1] = stream[1:]
    return tf.constant(window[0], tf.string), tf.constant(window[1], tf.string)
