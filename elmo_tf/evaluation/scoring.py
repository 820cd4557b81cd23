"""Log probabilities of sentences and of their tokens, by a language model."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.config_checks import check_int
from elmo_tf.evaluation.full_softmax import window_losses
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.batches import in_batches, rounded_length, rounded_rows
from elmo_tf.text.inputs import Sentence, sentence_items, tokens_of
from elmo_tf.text.sentences import decode, encode
from elmo_tf.text.vocabulary import UNKNOWN_ID
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
        ValueError: a token is empty or contains whitespace, or `batch_tokens` is below 1.

    Source: Peters et al. 2018, section 3.1.
    """
    check_int(batch_tokens, "batch_tokens", ge=1)
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
    token_lists = (
        sentence_tokens(sentence, f"Sentence {index}")
        for index, sentence in enumerate(sentence_items(sentences))
    )
    return in_batches(token_lists, batch_tokens, functools.partial(_batch_scores, model, log_probs))


def _batch_scores(
    model: LanguageModel, window_log_probs: Callable, sentences: Sequence[list[str]]
) -> Iterator[SentenceScore]:
    width = rounded_length(len(sentences[-1]) + 1)
    window = sentence_window(sentences, rounded_rows(len(sentences)), width)
    log_probs = window_log_probs(*window).numpy().astype(np.float64)
    for row, tokens in enumerate(sentences):
        of_row = log_probs[:, row, : len(tokens) + 1]
        by_direction = dict(zip(model.bilm.config.directions, of_row, strict=True))
        if "backward" in by_direction:
            by_direction["backward"] = by_direction["backward"][::-1]
        is_unknown = [id == UNKNOWN_ID for id in model.vocabulary.ids(tokens)]
        yield SentenceScore(tokens, by_direction, is_unknown)


def sentence_tokens(sentence: Any, name: str) -> list[str]:
    """Returns the tokens of a sentence without whitespace; error messages call it `name`."""
    tokens = [decode(token) for token in tokens_of(name, sentence)]
    for token in tokens:
        if token.split() != [token]:
            raise ValueError(
                f"A token must not be empty or contain whitespace. {name} contains {token!r}. "
                "To have a sentence split, pass it as one str."
            )
    return tokens


def sentence_window(
    sentences: Sequence[Sequence[str]], num_rows: int, width: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds one window with a complete sentence per row, in the format of `lm_windows`.

    Args:
        sentences: lists of tokens.
        num_rows: int >= the number of sentences. Further rows are padding.
        width: int > the number of tokens of each sentence.

    Returns:
        inputs and targets, string (direction, row, token), padded with `""` at the end.
    """
    window = np.full((2, 2, num_rows, width), b"", object)  # (inputs or targets, direction, …)
    for row, tokens in enumerate(sentences):
        text = [BOS.encode(), *map(encode, tokens), EOS.encode()]
        for direction, stream in enumerate((text, text[::-1])):
            window[0, direction, row, : len(text) - 1] = stream[:-1]
            window[1, direction, row, : len(text) - 1] = stream[1:]
    return tf.constant(window[0], tf.string), tf.constant(window[1], tf.string)
