"""Substitutes: the most probable tokens at a position of a sentence, by a language model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.evaluation.full_softmax import tokens_per_chunk
from elmo_tf.evaluation.scoring import Sentence, sentence_tokens, sentence_window
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary


class Substitute(NamedTuple):
    """A token of the vocabulary, its log probability in each direction, and their sum."""

    token: str
    log_probs: dict[str, float]
    total: float


def substitutes(
    model: LanguageModel,
    sentence: Sentence,
    positions: Iterable[int],
    top_n: int = 10,
    exclude: Iterable[str] = SPECIAL_TOKENS,
) -> list[list[Substitute]]:
    """Finds the tokens that are most probable at some positions of a sentence.

    `score(v) = log P_forward(v | <S> w_1 … w_t-1) + log P_backward(v | w_t+1 … w_n </S>)`, natural
    logarithms of the full softmax. Each direction's probabilities sum to 1 over the vocabulary,
    excluded tokens included; their products do not. The token at the position itself is not read,
    and may be among its own substitutes. The LSTMs start from zero states.

    Args:
        model: a `LanguageModel`. A forward-only model is scored by that direction alone.
        sentence: a `str`, split like `str.split()`, or a list of tokens.
        positions: positions of tokens, from 0. The sentence is read once for all of them.
        top_n: int >= 1. Maximum number of substitutes per position. Defaults to 10.
        exclude: tokens that are never returned; tokens outside the vocabulary are ignored.
            Defaults to `<S> </S> <UNK>`.

    Returns:
        For each position a list of `Substitute`, the best first.

    Raises:
        TypeError: `sentence` is not text, a position is not an integer, or `exclude` is one string.
        ValueError: a position is outside the sentence, or `top_n` is below 1.

    Source: the directions are those of Peters et al. 2018, section 3.1; the score, their product,
    is not from that paper.
    """
    if top_n < 1:
        raise ValueError(f"`top_n` must be at least 1. Received: {top_n}")
    tokens = sentence_tokens(sentence, "`sentence`")
    positions = list(positions)
    for position in positions:
        if not isinstance(position, int | np.integer):
            raise TypeError(f"`positions` must be integers. Received: {position!r}")
        check_position("`positions`", position, len(tokens))
    allowed = _allowed(model.vocabulary, exclude)
    top_n = min(top_n, int(allowed.sum()))
    return [
        _best(model, log_probs, np.where(allowed, log_probs.sum(axis=0), -np.inf), top_n)
        for log_probs in _position_log_probs(model, tokens, positions)
    ]


def check_position(argument: str, position: int, num_tokens: int) -> None:
    """Raises `ValueError` if a position, from 0, is outside a sentence of `num_tokens` tokens."""
    if not 0 <= position < num_tokens:
        tokens = {0: "no tokens", 1: "1 token (0)"}.get(
            num_tokens, f"{num_tokens} tokens (0 to {num_tokens - 1})"
        )
        raise ValueError(f"{argument} {position}: the sentence has {tokens}.")


def _position_log_probs(
    model: LanguageModel, tokens: Sequence[str], positions: Sequence[int]
) -> Iterator[np.ndarray]:
    """Computes the log probabilities of all tokens of the vocabulary at some positions.

    Yields:
        For each position float32 (direction, vocabulary), natural logarithm.
    """
    inputs, _ = sentence_window([tokens], 1, rounded_length(len(tokens) + 1))
    outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(1))
    # Outputs that predict the tokens; the backward direction reads the sentence reversed.
    indices = {"forward": positions, "backward": [len(tokens) - 1 - place for place in positions]}
    chunk = tokens_per_chunk(model.softmax)
    for start in range(0, len(positions), chunk):
        part = slice(start, start + chunk)
        log_probs = [
            tf.nn.log_softmax(model.softmax.logits(tf.gather(top[0], indices[name][part])))
            for name, top in zip(model.bilm.config.directions, outputs, strict=True)
        ]
        yield from np.stack(log_probs, axis=1)  # (position, direction, vocabulary)


def _allowed(vocabulary: Vocabulary, exclude: Iterable[str]) -> np.ndarray:
    """Which tokens may be returned, bool (vocabulary,)."""
    if isinstance(exclude, str):
        raise TypeError(
            f"`exclude` must be several tokens, not one string: {exclude!r}. Pass a list."
        )
    allowed = np.ones(len(vocabulary), bool)
    # An unknown token's id would be that of <UNK>.
    allowed[vocabulary.ids([token for token in exclude if token in vocabulary])] = False
    return allowed


def _best(
    model: LanguageModel, log_probs: np.ndarray, total: np.ndarray, top_n: int
) -> list[Substitute]:
    best, ids = tf.math.top_k(total, top_n)
    return [
        Substitute(
            model.vocabulary.tokens[index],
            dict(zip(model.bilm.config.directions, log_probs[:, index].tolist(), strict=True)),
            score,
        )
        for index, score in zip(ids.numpy(), best.numpy().tolist(), strict=True)
    ]
