"""LanguageModel ─► perplexity of held-out text, by the full softmax."""

import math
import os
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from elmo_tf.evaluation.full_softmax import token_losses
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.progress import progress
from elmo_tf.text.corpus import count_corpus, sentence_dataset
from elmo_tf.text.prefetch import prefetch
from elmo_tf.text.windows import lm_windows

# Text is read in one row as long as it is short, where the state at its beginning matters.
_TOKENS_PER_ROW = 2_000
_MOST_ROWS = 32
_TOKENS_PER_WINDOW = 640
_MOST_UNKNOWN = 0.05  # share of the targets above which the perplexity misleads
_LARGEST_EXPONENT = 709  # of a Python float


def perplexity(
    model: LanguageModel, files: Sequence[str | os.PathLike], shown: bool = True
) -> dict[str, float | int]:
    """Perplexity per token, the boundary at a sentence's end included.

    The LSTM states are carried through the text, as in training. Text of 4,000 tokens or more is
    read in several rows, each of at least 2,000 and 32 of them at most.

    Args:
        model: a `LanguageModel`.
        files: text, one tokenised sentence a line.
        shown: whether to show progress.

    Returns:
        "forward" and "backward", the exponential of the mean negative log-likelihood of each
        direction; "average", that of both means' mean; "tokens", the targets of one direction;
        "unknown", the share of them that are `<UNK>`, whose probability is that of all unknown
        words together. A share above 5 % is warned of. A model that reads forward alone has no
        "backward", and its "average" is "forward".

    Raises:
        ValueError: there is no token in the files.

    Source: Peters et al. 2018; the evaluation script of the original.
    """
    return Perplexity(model, files)(shown)


class Perplexity:
    """Measures the perplexity of the same text several times, while a model is trained.

    Args:
        model, files: see `perplexity`.

    Call arguments, Returns, Raises: see `perplexity`.
    """

    def __init__(self, model: LanguageModel, files: Sequence[str | os.PathLike]):
        self._model = model
        count = count_corpus(files, model.vocabulary)
        self._num_targets = count.targets
        self._unknown = count.unknown / count.targets
        if self._unknown > _MOST_UNKNOWN:
            logging.warning(
                "%s of the targets are not in the vocabulary and count as <UNK>: the perplexity "
                "does not measure how well these words are predicted.",
                f"{self._unknown:.1%}",
            )
        num_rows = max(1, min(_MOST_ROWS, self._num_targets // _TOKENS_PER_ROW))
        window = max(1, _TOKENS_PER_WINDOW // num_rows)
        windows = lm_windows(sentence_dataset(files), num_rows, window, drop_remainder=False)
        self._windows = prefetch(windows, 2)
        self._states = tf.nest.map_structure(
            lambda state: tf.Variable(state, trainable=False), model.bilm.zero_states(num_rows)
        )

    def __call__(self, shown: bool = True) -> dict[str, float | int]:
        tf.nest.map_structure(lambda state: state.assign(tf.zeros_like(state)), self._states)
        total = tf.zeros((self._model.bilm.config.num_directions,), tf.float64)
        with progress(self._num_targets, "evaluating", "tokens", shown=shown) as meter:
            for part in self._windows:
                total += self._losses(part["inputs"], part["targets"], part["mask"])
                meter.update(int(tf.math.count_nonzero(part["mask"])))
        means = (total / self._num_targets).numpy().tolist()  # forward, then backward if there
        return {
            **dict(zip(("forward", "backward"), map(_exp, means), strict=False)),
            "average": _exp(sum(means) / len(means)),
            "tokens": self._num_targets,
            "unknown": self._unknown,
        }

    @tf.function(reduce_retracing=True, autograph=False)
    def _losses(self, inputs: tf.Tensor, targets: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Each direction's sum over one window, float64 (direction,). Moves the states on."""
        outputs, states = self._model.top_layer_outputs(inputs, self._states)
        tf.nest.map_structure(lambda old, new: old.assign(new), self._states, states)
        sums = []
        for top, ids in zip(outputs, self._model.targets(targets), strict=True):
            ids = tf.boolean_mask(ids, tf.reshape(mask, (-1,)))
            losses = token_losses(self._model.softmax, tf.boolean_mask(top, mask), ids)
            sums.append(tf.reduce_sum(tf.cast(losses, tf.float64)))
        return tf.stack(sums)


def _exp(value: float) -> float:
    """The exponential; that of a model beyond all bounds is infinite."""
    return math.exp(value) if value < _LARGEST_EXPONENT else math.inf
