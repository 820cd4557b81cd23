"""One step of training: window → losses → gradients → new weights and carried state."""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.models.language_model import LanguageModel
from elmo_tf.trainers.optimizers import clip_by_global_norm

# The random numbers of a step are told apart by these.
_DROPOUT, _NEGATIVES = range(2)


class TrainStep:
    """A language model, its optimizer, and the states of all lanes.

    The loss is half the sum of both directions' mean negative log-likelihoods, estimated by the
    sampled softmax. Gradients are taken of the loss times the window's tokens, as the original
    does, and clipped together. State goes from window to window, gradients do not (truncated
    backpropagation through time).

    Args:
        model: a `LanguageModel`.
        optimizer: a Keras optimizer that takes sparse gradients.
        num_lanes: int >= 1.
        dropout: float, 0 to 1 (excluded).
        clip_norm: float > 0.
        seed: int. With the number of a step it determines all its random numbers.

    Source: Peters et al. 2018, section 3.1; the settings of the original.
    """

    def __init__(
        self,
        model: LanguageModel,
        optimizer: keras.optimizers.Optimizer,
        num_lanes: int,
        dropout: float,
        clip_norm: float,
        seed: int,
    ):
        self.model = model
        self.optimizer = optimizer
        self.dropout = dropout
        self.clip_norm = clip_norm
        self.seed = seed
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.states = tf.nest.map_structure(
            lambda state: tf.Variable(state, trainable=False), model.zero_states(num_lanes)
        )
        self.trainable = [*model.bilm.trainable_weights, *model.softmax.trainable_weights]
        optimizer.build(self.trainable)

    @tf.function(reduce_retracing=True, autograph=False)
    def __call__(self, inputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
        """Trains on one window.

        Args:
            inputs, targets: string (direction, lane, token), see `lm_windows`.

        Returns:
            Scalars: "loss", "forward" and "backward" (mean negative log-likelihoods, sampled), and
            "norm" (of the gradients before they were clipped).
        """
        seed = tf.random.experimental.stateless_fold_in((self.seed, 0), self.step)
        with tf.GradientTape() as tape:
            forward, backward = self._losses(inputs, targets, seed)
            loss = 0.5 * (forward + backward)
            scaled = loss * tf.cast(tf.shape(inputs)[-1], loss.dtype)
        gradients = tape.gradient(scaled, [weight.value for weight in self.trainable])
        gradients, norm = clip_by_global_norm(gradients, self.clip_norm)
        self.optimizer.apply(gradients, self.trainable)
        self.step.assign_add(1)
        return {"loss": loss, "forward": forward, "backward": backward, "norm": norm}

    def _losses(self, inputs: tf.Tensor, targets: tf.Tensor, seed: tf.Tensor) -> list[tf.Tensor]:
        dropout_fn = _Dropout(self.dropout, _fold_in(seed, _DROPOUT)) if self.dropout else None
        tops, states = self.model.tops(inputs, self.states, dropout_fn, training=True)
        tf.nest.map_structure(lambda old, new: old.assign(new), self.states, states)
        losses = []
        for direction, (top, ids) in enumerate(zip(tops, self.model.targets(targets), strict=True)):
            top = tf.reshape(top, (-1, top.shape[-1]))  # (lane · token, feature)
            sample_seed = _fold_in(_fold_in(seed, _NEGATIVES), direction)
            losses.append(tf.reduce_mean(self.model.softmax(top, ids, seed=sample_seed)))
        return losses


class _Dropout:
    """Inverted dropout whose masks follow from a seed and the order of the calls."""

    def __init__(self, rate: float, seed: tf.Tensor):
        self._rate = rate
        self._seed = seed
        self._calls = 0

    def __call__(self, inputs: Any) -> tf.Tensor:
        seed = _fold_in(self._seed, self._calls)
        self._calls += 1
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, seed=seed)


def _fold_in(seed: tf.Tensor, number: int) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number)
