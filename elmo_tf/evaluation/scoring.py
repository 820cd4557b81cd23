"""LanguageModel ─► the log probability of each sentence, and of each of its tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.evaluation.full_softmax import token_losses
from elmo_tf.evaluation.whole_sentences import (
    Sentence,
    directions,
    sentence_tokens,
    sentence_window,
)
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.batches import length_batches, read_ahead, rounded_length, rounded_rows
from elmo_tf.text.vocabulary import UNKNOWN_ID

# Batches that are read ahead, so that sentences of like length can be put together.
_BATCHES_AHEAD = 16


class SentenceScore(NamedTuple):
    """What a language model makes of one sentence of n tokens. Natural logarithms.

    Attributes:
        tokens: the sentence's own, without boundaries.
        token_log_probs: for each direction float64 (n + 1,), in the order of the text: "forward"
            holds `log P(w_i | w_1 … w_i-1)` for `w1 … wn </S>`, "backward" holds
            `log P(w_i | w_i+1 … w_n)` for `<S> w1 … wn`.
        is_unknown: for each of `tokens`, whether it is scored as `<UNK>`: its log probability is
            that of all unknown words together.
    """

    tokens: list[str]
    token_log_probs: dict[str, np.ndarray]
    is_unknown: list[bool]

    @property
    def num_targets(self) -> int:
        """What one direction predicts: every token, and a boundary."""
        return len(self.tokens) + 1

    @property
    def log_probs(self) -> dict[str, float]:
        """For each direction the log probability of the whole sentence, the tokens' sum."""
        return {name: float(values.sum()) for name, values in self.token_log_probs.items()}

    @property
    def num_unknown(self) -> int:
        """Targets of one direction that are scored as `<UNK>`."""
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
    """The log probability of each sentence, by the full softmax, in the order of the input.

    `log P(w_1 … w_n </S>) = sum_i log P(w_i | <S> w_1 … w_i-1) + log P(</S> | <S> w_1 … w_n)`
    forward, and the same backward on the sentence reversed, `</S>` before it and `<S>` behind.

    Every sentence starts from zero state, so its score does not depend on the sentences beside it;
    `perplexity` carries the state through the text instead. A token that is not in the vocabulary
    is read as it is spelt, but scored as `<UNK>`: sentences with many such tokens score too well.
    `SentenceScore.known_log_probs` leaves those targets out.
    A sentence without tokens has the boundary as its only target.

    Args:
        model: a `LanguageModel`.
        sentences: each a `str`, split where `str.split()` would, or a list of tokens. Some batches
            are read ahead, never more, so that the input may be without end.
        batch_tokens: int >= 1. Tokens in a batch, boundaries and padding included; a longer
            sentence is a batch of its own. Defaults to 4096.

    Yields:
        A `SentenceScore` for each sentence.

    Raises:
        TypeError: `sentences` is one string, or holds something else than text.
        ValueError: a token that is empty or holds white space, or an argument out of its range.

    Source: Peters et al. 2018, section 3.1.
    """
    return SentenceScorer(model, batch_tokens)(sentences)


class SentenceScorer:
    """Scores sentences as `sentence_scores` does, any number of times, and is prepared once.

    Args:
        model, batch_tokens: see `sentence_scores`.

    Call arguments, Yields, Raises: see `sentence_scores`.
    """

    def __init__(self, model: LanguageModel, batch_tokens: int = 4096):
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` must be at least 1. Received: {batch_tokens}")
        self._model = model
        self._batch_tokens = batch_tokens
        self._directions = directions(model)
        window = tf.TensorSpec((2, None, None), tf.string)
        self._log_probs = tf.function(
            self._log_probs_of_window, input_signature=[window, window], autograph=False
        )

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[SentenceScore]:
        if isinstance(sentences, str | bytes):
            raise TypeError(
                f"`sentences` must be several sentences, not one string: {sentences!r}. Put it in "
                "a list."
            )
        return self._scores(sentences)

    def _scores(self, sentences: Iterable[Sentence]) -> Iterator[SentenceScore]:
        numbered = (
            sentence_tokens(sentence, f"Sentence {number}")
            for number, sentence in enumerate(sentences)
        )
        while group := read_ahead(numbered, _BATCHES_AHEAD * self._batch_tokens):
            scores: dict[int, SentenceScore] = {}
            for places in length_batches([len(tokens) + 1 for tokens in group], self._batch_tokens):
                batch = self._batch_scores([group[place] for place in places])
                scores.update(zip(places, batch, strict=True))
            yield from (scores[place] for place in range(len(group)))

    def _batch_scores(self, batch: Sequence[list[str]]) -> Iterator[SentenceScore]:
        width = rounded_length(len(batch[-1]) + 1)
        window = sentence_window(batch, rounded_rows(len(batch)), width)
        log_probs = self._log_probs(*window).numpy().astype(np.float64)
        for row, tokens in enumerate(batch):
            by_direction = dict(
                zip(self._directions, log_probs[:, row, : len(tokens) + 1], strict=True)
            )
            if "backward" in by_direction:
                by_direction["backward"] = by_direction["backward"][::-1]
            ids = self._model.vocabulary.ids(tokens)
            yield SentenceScore(tokens, by_direction, [index == UNKNOWN_ID for index in ids])

    def _log_probs_of_window(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Log probabilities of the targets, float (direction, row, token); 0 at padding."""
        mask = targets[0] != ""  # (row, token)
        outputs, _ = self._model.top_layer_outputs(
            inputs, self._model.bilm.zero_states(tf.shape(inputs)[1])
        )
        places = tf.where(mask)  # (real token, 2)
        log_probs = []
        for top, ids in zip(outputs, self._model.targets(targets), strict=True):
            ids = tf.boolean_mask(ids, tf.reshape(mask, (-1,)))
            values = -token_losses(self._model.softmax, tf.boolean_mask(top, mask), ids)
            log_probs.append(tf.scatter_nd(places, values, tf.shape(mask, tf.int64)))
        return tf.stack(log_probs)
