"""Substitutes: the most probable tokens at a position of a sentence, by a language model."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.config_checks import check_int
from elmo_tf.evaluation.full_softmax import tokens_per_chunk
from elmo_tf.evaluation.scoring import sentence_tokens, sentence_window
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.batches import in_batches, rounded_length, rounded_rows
from elmo_tf.text.inputs import Sentence, sentence_items
from elmo_tf.text.vocabulary import SPECIAL_TOKENS


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
    """Finds the substitutes of one sentence, see `sentence_substitutes`."""
    (of_sentence,) = sentence_substitutes(model, [sentence], [positions], top_n, exclude)
    return of_sentence


def sentence_substitutes(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    positions: Iterable[Iterable[int]],
    top_n: int = 10,
    exclude: Iterable[str] = SPECIAL_TOKENS,
    batch_tokens: int = 4096,
) -> Iterator[list[list[Substitute]]]:
    """Finds the tokens that are most probable at some positions of each sentence.

    `score(v) = log P_forward(v | <S> w_1 … w_t-1) + log P_backward(v | w_t+1 … w_n </S>)`, natural
    logarithms of the full softmax. Each direction's probabilities sum to 1 over the vocabulary,
    excluded tokens included; their products do not. The token at the position itself is not read,
    and may be among its own substitutes. The LSTMs start from zero states.

    Args:
        model: a `LanguageModel`. A forward-only model is scored by that direction alone.
        sentences: each a `str`, split like `str.split()`, or a list of tokens. May be infinite: a
            bounded number of batches is read ahead.
        positions: for each sentence the positions of tokens, from 0; may be empty. The sentence is
            read once for all of them.
        top_n: int >= 1. Maximum number of substitutes per position. Defaults to 10.
        exclude: tokens that are never returned; tokens outside the vocabulary are ignored.
            Defaults to `<S> </S> <UNK>`.
        batch_tokens: see `sentence_scores`.

    Yields:
        For each sentence, in input order, for each position a list of `Substitute`, the best first.

    Raises:
        TypeError: `sentences` is one string or a table, a sentence is not text, a position is not
            an integer, or `exclude` is one string.
        ValueError: a position is outside its sentence, `sentences` and `positions` differ in
            length, or `top_n` or `batch_tokens` is below 1.

    Source: the directions are those of Peters et al. 2018, section 3.1; the score, their product,
    is not from that paper.
    """
    check_int(batch_tokens, "batch_tokens", ge=1)
    check_int(top_n, "top_n", ge=1)
    if isinstance(exclude, str):
        raise TypeError(
            f"`exclude` must be several tokens, not one string: {exclude!r}. Pass a list."
        )
    allowed = np.ones(len(model.vocabulary), bool)
    # An unknown token's id would be that of <UNK>.
    allowed[model.vocabulary.ids([token for token in exclude if token in model.vocabulary])] = False
    run = functools.partial(_batch_substitutes, model, min(top_n, int(allowed.sum())), allowed)
    queries = _queries(sentence_items(sentences), positions)
    return in_batches(queries, batch_tokens, run, lambda query: len(query[0]))


def _queries(
    sentences: Iterable[Sentence], positions: Iterable[Iterable[int]]
) -> Iterator[tuple[list[str], list[int]]]:
    """Yields the tokens of each sentence and their positions."""
    for index, (sentence, places) in enumerate(itertools.zip_longest(sentences, positions)):
        if sentence is None or places is None:
            raise ValueError(
                "`sentences` and `positions` differ in length. For each sentence, pass a list of "
                "positions."
            )
        tokens = sentence_tokens(sentence, f"Sentence {index}")
        name = f"Sentence {index}: `positions`"
        if not isinstance(places, Iterable):
            raise TypeError(f"{name} must be a list of integers. Received: {places!r}")
        places = list(places)
        for place in places:
            if not isinstance(place, int | np.integer):
                raise TypeError(f"{name} must be integers. Received: {place!r}")
            check_position(name, place, len(tokens))
        yield tokens, places


def check_position(argument: str, position: int, num_tokens: int) -> None:
    """Raises `ValueError` if a position, from 0, is outside a sentence of `num_tokens` tokens."""
    if not 0 <= position < num_tokens:
        tokens = {0: "no tokens", 1: "1 token (0)"}.get(
            num_tokens, f"{num_tokens} tokens (0 to {num_tokens - 1})"
        )
        raise ValueError(f"{argument} {position}: the sentence has {tokens}.")


def _batch_substitutes(
    model: LanguageModel,
    top_n: int,
    allowed: np.ndarray,
    batch: Sequence[tuple[list[str], list[int]]],
) -> Iterator[list[list[Substitute]]]:
    """Yields the substitutes of each sentence of a batch, whose longest sentence is the last.

    `allowed`: bool (vocabulary,).
    """
    sentences = [tokens for tokens, _ in batch]
    num_rows, width = rounded_rows(len(sentences)), rounded_length(len(sentences[-1]) + 1)
    inputs, _ = sentence_window(sentences, num_rows, width)
    outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(num_rows))
    # Outputs that predict the tokens; the backward direction reads the sentence reversed.
    forward = [(row, place) for row, (_, places) in enumerate(batch) for place in places]
    backward = [(row, len(sentences[row]) - 1 - place) for row, place in forward]
    directions = dict(zip(model.bilm.config.directions, (forward, backward), strict=False))
    best: list[list[Substitute]] = []
    chunk = tokens_per_chunk(model.softmax)
    for start in range(0, len(forward), chunk):
        logits = [
            model.softmax.logits(tf.gather_nd(top, indices[start : start + chunk]))
            for top, indices in zip(outputs, directions.values(), strict=True)
        ]
        # (position, direction, vocabulary)
        log_probs = tf.nn.log_softmax(tf.stack(logits, axis=1)).numpy()
        totals, ids = tf.math.top_k(np.where(allowed, log_probs.sum(axis=1), -np.inf), top_n)
        for of_place, *place in zip(log_probs, ids.numpy(), totals.numpy().tolist(), strict=True):
            row = []
            for id, total in zip(*place, strict=True):
                by_direction = dict(zip(directions, of_place[:, id].tolist(), strict=True))
                row.append(Substitute(model.vocabulary.tokens[id], by_direction, total))
            best.append(row)
    remaining = iter(best)
    return (list(itertools.islice(remaining, len(places))) for _, places in batch)
