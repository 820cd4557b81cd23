"""LanguageModel ─► the tokens that fit a place in a sentence best."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.evaluation.full_softmax import tokens_at_once
from elmo_tf.evaluation.whole_sentences import (
    Sentence,
    directions,
    sentence_tokens,
    sentence_window,
)
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
    """The tokens that both directions together find most probable at places of a sentence.

    `score(v) = log P_forward(v | <S> w_1 … w_t-1) + log P_backward(v | w_t+1 … w_n </S>)`, with
    natural logarithms and the full softmax. Each direction's probabilities sum to 1 over the
    vocabulary, excluded tokens included; those of the product do not. The token that stands at the
    place takes no part, and may be among its own substitutes. The LSTMs start from zero state.

    Args:
        model: a `LanguageModel`. Of one with a single direction, that direction alone counts.
        sentence: a `str`, split where `str.split()` would, or a list of tokens.
        positions: places of tokens, from 0. The sentence is read once for all of them.
        top_n: int >= 1. Substitutes given for each place, at most. Defaults to 10.
        exclude: tokens that are never given; those that are not in the vocabulary are passed over.
            Defaults to `<S> </S> <UNK>`.

    Returns:
        For each position a list of `Substitute`, the best first.

    Raises:
        TypeError: `sentence` is no text, a position no integer, or `exclude` one string.
        ValueError: a position outside the sentence, or `top_n` below 1.

    Source: both directions are those of Peters et al. 2018, section 3.1; their product as a score
    is not from that paper.
    """
    if top_n < 1:
        raise ValueError(f"`top_n` must be at least 1. Received: {top_n}")
    tokens = sentence_tokens(sentence, "`sentence`")
    places = _checked_positions(positions, len(tokens))
    allowed = _allowed(model.vocabulary, exclude)
    top_n = min(top_n, int(allowed.sum()))
    return [
        _best(model, log_probs, np.where(allowed, log_probs.sum(axis=0), -np.inf), top_n)
        for log_probs in position_log_probs(model, tokens, places)
    ]


def check_position(argument: str, position: int, num_tokens: int) -> None:
    """Raises `ValueError` if a position is outside of a sentence.

    Args:
        argument: the argument that holds it, as the message is to name it.
        position: counted from 0.
        num_tokens: of the sentence.
    """
    if 0 <= position < num_tokens:
        return
    tokens = {0: "no tokens", 1: "1 token (0)"}.get(
        num_tokens, f"{num_tokens} tokens (0 to {num_tokens - 1})"
    )
    raise ValueError(f"{argument} {position}: the sentence has {tokens}.")


def position_log_probs(
    model: LanguageModel, tokens: Sequence[str], positions: Sequence[int]
) -> Iterator[np.ndarray]:
    """Log probabilities of the whole vocabulary at places of a sentence, which is read once.

    Args:
        model: a `LanguageModel`.
        tokens: the sentence.
        positions: places of its tokens, from 0.

    Yields:
        For each position float32 (direction, vocabulary), natural logarithm.
    """
    inputs, _ = sentence_window([tokens], 1, rounded_length(len(tokens) + 1))
    outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(1))
    # What predicts a token stands beside it: the backward direction comes from the other end.
    indices = {"forward": positions, "backward": [len(tokens) - 1 - place for place in positions]}
    chunk = tokens_at_once(model.softmax)
    for start in range(0, len(positions), chunk):
        part = slice(start, start + chunk)
        log_probs = [
            tf.nn.log_softmax(model.softmax.logits(tf.gather(top[0], indices[name][part])))
            for name, top in zip(directions(model), outputs, strict=True)
        ]
        yield from np.stack(log_probs, axis=1)  # (place, direction, vocabulary)


def _allowed(vocabulary: Vocabulary, exclude: Iterable[str]) -> np.ndarray:
    """Which tokens may be given, bool (vocabulary,)."""
    if isinstance(exclude, str):
        raise TypeError(
            f"`exclude` must be several tokens, not one string: {exclude!r}. Put it in a list."
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
            dict(zip(directions(model), log_probs[:, index].tolist(), strict=True)),
            score,
        )
        for index, score in zip(ids.numpy(), best.numpy().tolist(), strict=True)
    ]


def _checked_positions(positions: Iterable[int], num_tokens: int) -> list[int]:
    places = list(positions)
    for place in places:
        if not isinstance(place, int | np.integer):
            raise TypeError(f"`positions` must be integers. Received: {place!r}")
        check_position("`positions`", place, num_tokens)
    return places
