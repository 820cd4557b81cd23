"""Perplexity of a language model on held-out text, and exact losses in bounded memory."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.logs import progress
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.settings import as_tuple
from elmo_tf.text.corpus import corpus_size, count_files, lines_read_once, warn_of_unknown
from elmo_tf.text.windows import LMWindows

# In short texts the initial states weigh more, so these are read in fewer batch rows.
_TOKENS_PER_ROW, _MAX_ROWS, _TOKENS_PER_WINDOW = 2_000, 32, 640
_DEVIATION = 2  # nats per token; in a healthy model, rows differ by 0.3
# Elements of the largest matrix of logits, (token, vocabulary): 128 MiB.
_LOGITS_IN_MEMORY = 2**25


def perplexity(
    model: LanguageModel, files: str | os.PathLike | Sequence[str | os.PathLike], shown: bool = True
) -> dict[str, float | int]:
    """Computes the perplexity per token, the boundary at the end of each sentence included.

    LSTM states are carried from sentence to sentence, as in training. Texts of 4,000 tokens or more
    are read in up to 32 batch rows of at least 2,000 tokens each, from zero states. From them, the
    LSTM of an unstable model can get stuck in states in which it predicts badly. If the mean loss
    of a row is 2 nats above that of the best one, a warning reports it, and all rows are read again
    from the last states of the best row.

    Args:
        model: a `LanguageModel`.
        files: one or several text files, a tokenized sentence per line, or FASTA by their names.
        shown: whether to show progress.

    Returns:
        "forward" and "backward", the exponential of the mean negative log-likelihood of each
        direction; "average", the exponential of the mean of both; "tokens", the number of targets
        of one direction; "unknown", the share of them that are `<UNK>`. A forward-only model has no
        "backward", and its "average" equals "forward". All unknown words share one probability, so
        a share above 5 % is reported by a warning.

    Raises:
        ValueError: the files hold no token.

    Source: Peters et al. 2018; the evaluation script of the original.
    """
    return Perplexity(model, as_tuple(files))(shown)


class Perplexity:
    """Measures the perplexity of one text repeatedly, as `perplexity` does once."""

    def __init__(
        self,
        model: LanguageModel,
        files: Sequence[str | os.PathLike],
        format: str | None = None,
    ):
        self._model = model
        text = count_files(files, format)
        text.report()
        self._num_targets = text.targets
        self._unknown = corpus_size(text, model.vocabulary)["unknown"] / text.targets
        note = "the perplexity does not measure how well these words are predicted."
        warn_of_unknown(self._unknown, "", note)
        num_rows = max(1, min(_MAX_ROWS, self._num_targets // _TOKENS_PER_ROW))
        window = max(1, _TOKENS_PER_WINDOW // num_rows)
        lines = lines_read_once(files, format)
        self._windows = functools.partial(LMWindows, lines, num_rows, window, drop_remainder=False)
        self._states = tf.nest.map_structure(
            lambda state: tf.Variable(state, trainable=False), model.bilm.zero_states(num_rows)
        )
        self._losses_of = tf.function(self._window_losses, reduce_retracing=True, autograph=False)

    def __call__(
        self, shown: bool = True, is_stopped: Callable[[], bool] = lambda: False
    ) -> dict[str, float | int] | None:
        """Returns the result of `perplexity`, or None if `is_stopped` is true between windows."""
        tf.nest.map_structure(lambda state: state.assign(tf.zeros_like(state)), self._states)
        for is_again in (False, True):
            losses, counts = 0.0, 0  # (direction, row) and (row,)
            with progress(self._num_targets, "evaluating", "tokens", shown=shown) as meter:
                for window in self._windows():
                    if is_stopped():
                        return None
                    losses += self._losses_of(**window).numpy()
                    counts += (num_real := np.count_nonzero(window["mask"], axis=1))
                    meter.update(int(num_real.sum()))
            if is_again or not self._restarted(losses, counts):
                break
        means = losses.sum(axis=1) / self._num_targets  # forward[, backward]
        with np.errstate(over="ignore"):  # a model that has diverged: infinity
            average, *perplexities = np.exp([means.mean(), *means]).tolist()
        return {
            **dict(zip(self._model.bilm.config.directions, perplexities, strict=True)),
            "average": average,
            "tokens": self._num_targets,
            "unknown": self._unknown,
        }

    def is_of_text(self, result: Mapping[str, Any]) -> bool:
        """Whether an earlier result has the numbers of targets and unknown words of this text."""
        return (result["tokens"], result["unknown"]) == (self._num_targets, self._unknown)

    def _restarted(self, losses: np.ndarray, counts: np.ndarray) -> bool:
        """Whether a row deviates: then all rows get the last states of the best one."""
        # The means of short rows vary; a long sentence can leave little text to other rows.
        long = np.flatnonzero(counts >= min(_TOKENS_PER_ROW // 2 + 1, counts.max()))
        means = losses[:, long] / counts[long]
        worst, best = means.max(axis=1), means.min(axis=1)
        if not (worst > best + _DEVIATION).any():
            return False
        logging.warning(
            "Some batch rows have mean losses of up to %.1f nats per token, others of %.1f: from "
            "zero states, the LSTM can get stuck. The text is read again from the states of the "
            "best row. Training with a lower learning rate is more stable.",
            *(worst.max(), best.min()),
        )
        for states, row in zip(self._states, long[means.argmin(axis=1)], strict=True):
            for state in tf.nest.flatten(states):
                state.assign(tf.broadcast_to(state[row], state.shape))
        return True

    def _window_losses(self, inputs: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Sums the losses of each row, float64 (direction, row), and updates the LSTM states."""
        outputs, states = self._model.top_layer_outputs(inputs, self._states)
        is_full = tf.reduce_all(mask, axis=1)[:, tf.newaxis]  # padding would change the last states
        tf.nest.map_structure(
            lambda old, new: old.assign(tf.where(is_full, new, old)), self._states, states
        )
        rows, num_rows = tf.where(mask)[:, 0], tf.shape(mask)[0]
        losses = window_losses(self._model, outputs, targets, mask)
        losses = [tf.cast(loss, tf.float64) for loss in losses]
        return tf.stack([tf.math.unsorted_segment_sum(loss, rows, num_rows) for loss in losses])


def window_losses(
    model: LanguageModel, outputs: Sequence[tf.Tensor], targets: tf.Tensor, mask: tf.Tensor
) -> list[tf.Tensor]:
    """Computes the exact losses of a window's real targets: float32 (real token,) per direction.

    Args:
        model, outputs, targets: see `LanguageModel.top_layer_outputs` and `LanguageModel.targets`.
        mask: bool (row, token).
    """
    is_real = tf.reshape(mask, (-1,))
    return [
        token_losses(model.softmax, tf.boolean_mask(top, mask), tf.boolean_mask(ids, is_real))
        for top, ids in zip(outputs, model.targets(targets), strict=True)
    ]


def token_losses(softmax: SampledSoftmax, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Computes exact negative log-likelihoods, natural logarithm, in chunks of tokens.

    Args: `inputs` float (token, feature), `targets` int (token,). Returns: float32 (token,).
    """
    chunk = tokens_per_chunk(softmax)
    # At least one chunk, even of no tokens: `concat` needs an element.
    num_chunks = tf.maximum(1, -(-tf.shape(inputs)[0] // chunk))
    losses = tf.TensorArray(tf.float32, num_chunks, infer_shape=False, element_shape=(None,))

    def write(index: tf.Tensor, losses: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        part = slice(index * chunk, (index + 1) * chunk)
        loss = softmax.full_loss(inputs[part], targets[part])
        return index + 1, losses.write(index, tf.cast(loss, tf.float32))

    _, losses = tf.while_loop(
        lambda index, _: index < num_chunks, write, (tf.constant(0), losses), parallel_iterations=1
    )
    return losses.concat()


def tokens_per_chunk(softmax: SampledSoftmax) -> int:
    """Returns the number of tokens whose logits are in memory at the same time."""
    return max(1, _LOGITS_IN_MEMORY // softmax.vocabulary_size)
