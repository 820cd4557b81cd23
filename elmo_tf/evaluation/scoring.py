"""Log probabilities of sentences and their tokens, and the most probable tokens at positions."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.evaluation.perplexity import tokens_per_chunk, window_losses
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.batches import in_batches, rounded_length, rounded_rows
from elmo_tf.text.counting import KnownText, reported_sentences
from elmo_tf.text.inputs import Sentence, token_lists
from elmo_tf.text.reading import encode
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, UNKNOWN_ID
from elmo_tf.text.windows import BOS, EOS


class SentenceScore(NamedTuple):
    """The log probabilities of a sentence of n tokens, natural logarithm.

    Attributes:
        tokens: the n tokens, without boundaries.
        token_log_probs: for each direction float64 (n + 1,), in the order of the text: "forward"
            holds `log P(w_i | w_1 … w_i-1)` for `w1 … wn </S>`, "backward" holds
            `log P(w_i | w_i+1 … w_n)` for `<S> w1 … wn`.
        is_unknown: for each token, whether it is scored as `<UNK>`, which has the probability of
            all unknown words together.
    """

    tokens: list[str]
    token_log_probs: dict[str, np.ndarray]
    is_unknown: list[bool]

    @property
    def num_targets(self) -> int:
        """The number of targets of one direction: the tokens and a boundary."""
        return len(self.tokens) + 1

    @property
    def log_probs(self) -> dict[str, float]:
        """For each direction the log probability of the sentence, the sum over its targets."""
        return {name: float(values.sum()) for name, values in self.token_log_probs.items()}

    @property
    def surprisals(self) -> dict[str, np.ndarray]:
        """For each direction the surprisal of each target in bits, `-log2 P`, float64 (n + 1,)."""
        return {name: -values / np.log(2) for name, values in self.token_log_probs.items()}

    @property
    def num_unknown(self) -> int:
        """The number of targets of one direction that are scored as `<UNK>`."""
        return sum(self.is_unknown)

    @property
    def known_log_probs(self) -> dict[str, float]:
        """For each direction the sum without the targets that are scored as `<UNK>`."""
        is_known = ~np.array(self.is_unknown, bool)
        targets = {"forward": [*is_known, True], "backward": [True, *is_known]}  # the boundary
        return {
            name: float(values[targets[name]].sum())
            for name, values in self.token_log_probs.items()
        }


def sentence_scores(
    model: LanguageModel, sentences: Iterable[Sentence], batch_tokens: int = 4096
) -> Iterator[SentenceScore]:
    """Computes the log probability of each sentence by the full softmax.

    `log P(w_1 … w_n </S>) = sum_i log P(w_i | <S> w_1 … w_i-1) + log P(</S> | <S> w_1 … w_n)`
    forward, and the same backward on the reversed sentence, with `</S>` before it and `<S>` after.

    Every sentence starts from zero states, so its score does not depend on other sentences;
    `perplexity`, in contrast, carries the states from sentence to sentence. A token that is not in
    the vocabulary is encoded by its characters but scored as `<UNK>`, so sentences with many such
    tokens score too high; `SentenceScore.known_log_probs` leaves these targets out. The only target
    of a sentence without tokens is the boundary.

    Args:
        model: a `LanguageModel`.
        sentences: each a `str`, split like `str.split()`, or a list of tokens. May be infinite: a
            bounded number of batches is read ahead.
        batch_tokens: int >= 1. Tokens in a batch, boundaries and padding included; a longer
            sentence is a batch of its own. Defaults to 4096.

    Yields:
        A `SentenceScore` for each sentence, in input order.

    Raises:
        TypeError: `sentences` is one string, or a sentence is neither a string nor a list of
            strings.
        ValueError: a token is empty.

    Source: Peters et al. 2018, section 3.1.
    """
    window = tf.TensorSpec((2, None, None), tf.string)

    def window_log_probs(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Log probabilities of the targets, float (direction, row, token); 0 at padding."""
        mask = targets[0] != ""  # (row, token)
        outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(tf.shape(inputs)[1]))
        places, shape = tf.where(mask), tf.shape(mask, tf.int64)
        losses = window_losses(model, outputs, targets, mask)
        return tf.stack([tf.scatter_nd(places, -loss, shape) for loss in losses])

    # Not the function itself: TensorFlow warns of functions that are traced many times.
    log_probs = tf.function(window_log_probs, autograph=False).get_concrete_function(window, window)
    token_sequences = reported_sentences(token_lists(sentences), KnownText())
    run = functools.partial(_batch_scores, model, log_probs)
    return in_batches(token_sequences, batch_tokens, run, len)


def _batch_scores(
    model: LanguageModel, window_log_probs: Callable, batch: Sequence[list[str]]
) -> Iterator[SentenceScore]:
    log_probs = window_log_probs(*_sentence_window(batch)).numpy().astype(np.float64)
    for row, tokens in enumerate(batch):
        of_row = log_probs[:, row, : len(tokens) + 1]
        by_direction = dict(zip(model.bilm.config.directions, of_row, strict=True))
        if "backward" in by_direction:
            by_direction["backward"] = by_direction["backward"][::-1]
        is_unknown = [id == UNKNOWN_ID for id in model.vocabulary.ids(tokens)]
        yield SentenceScore(tokens, by_direction, is_unknown)


class Substitute(NamedTuple):
    """A token of the vocabulary, its log probability in each direction, and their sum."""

    token: str
    log_probs: dict[str, float]
    total: float


def substitutes(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    positions: Sequence[Sequence[int]],
    top_n: int = 10,
    batch_tokens: int = 4096,
) -> list[list[list[Substitute]]]:
    """Finds the tokens that are most probable at some positions of each sentence.

    `score(v) = log P_forward(v | <S> w_1 … w_t-1) + log P_backward(v | w_t+1 … w_n </S>)`, natural
    logarithms of the full softmax. Each direction's probabilities sum to 1 over the vocabulary;
    their products do not. `<S>`, `</S>` and `<UNK>` are never returned. The token at the position
    itself is not read, and may be among its own substitutes. The LSTMs start from zero states.

    Args:
        model: a `LanguageModel`. A forward-only model is scored by that direction alone.
        sentences: each a `str`, split like `str.split()`, or a list of tokens.
        positions: for each sentence the positions of tokens, from 0; may be empty. The sentence is
            read once for all of them.
        top_n: int >= 1. Maximum number of substitutes per position. Defaults to 10.
        batch_tokens: see `sentence_scores`.

    Returns:
        For each sentence, for each position a list of `Substitute`, the best first.

    Raises:
        TypeError: `sentences` is one string or a table, or a sentence is not text.
        ValueError: a position is outside its sentence, or `sentences` and `positions` differ in
            length.

    Source: the directions are those of Peters et al. 2018, section 3.1; the score, their product,
    is not from that paper.
    """
    allowed = np.ones(len(model.vocabulary), bool)
    allowed[model.vocabulary.ids(SPECIAL_TOKENS)] = False
    run = functools.partial(_batch_substitutes, model, min(top_n, int(allowed.sum())), allowed)
    queries = list(zip(token_lists(sentences), positions, strict=True))
    for index, (tokens, places) in enumerate(queries):
        for place in places:
            if not 0 <= place < len(tokens):
                raise ValueError(
                    f"Sentence {index} has {len(tokens)} tokens: there is no position {place}, "
                    "counted from 0."
                )
    return [*in_batches(queries, batch_tokens, run, lambda query: len(query[0]))]


def _batch_substitutes(
    model: LanguageModel,
    top_n: int,
    allowed: np.ndarray,
    batch: Sequence[tuple[list[str], Sequence[int]]],
) -> Iterator[list[list[Substitute]]]:
    """Yields the substitutes of each sentence. `allowed`: bool (vocabulary,)."""
    inputs, _ = _sentence_window([tokens for tokens, _ in batch])
    outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(inputs.shape[1]))
    # Outputs that predict the tokens; the backward direction reads the sentence reversed.
    forward = [(row, place) for row, (_, places) in enumerate(batch) for place in places]
    backward = [(row, len(batch[row][0]) - 1 - place) for row, place in forward]
    directions = dict(zip(model.bilm.config.directions, (forward, backward), strict=False))
    best: list[list[Substitute]] = []  # for each position
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
            best.append([])
            for id, total in zip(*place, strict=True):
                by_direction = dict(zip(directions, of_place[:, id].tolist(), strict=True))
                best[-1].append(Substitute(model.vocabulary.tokens[id], by_direction, total))
    remaining = iter(best)
    return (list(itertools.islice(remaining, len(places))) for _, places in batch)


def _sentence_window(sentences: Sequence[list[str]]) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds one window with a complete sentence per row, the longest one last.

    Returns inputs and targets in the format of `LMWindows`, string (direction, row, token). They
    are padded with `""` at the end, to a rounded number of rows and a rounded length.
    """
    num_rows, width = rounded_rows(len(sentences)), rounded_length(len(sentences[-1]) + 1)
    window = np.full((2, 2, num_rows, width), b"", object)  # (inputs or targets, direction, …)
    for row, tokens in enumerate(sentences):
        text = [BOS.encode(), *map(encode, tokens), EOS.encode()]
        for direction, stream in enumerate((text, text[::-1])):
            window[0, direction, row, : len(text) - 1] = stream[:-1]
            window[1, direction, row, : len(text) - 1] = stream[1:]
    return tf.constant(window[0], tf.string), tf.constant(window[1], tf.string)
