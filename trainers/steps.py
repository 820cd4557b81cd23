"""One step of training: window → losses → gradients → new weights and carried state."""

import itertools
import math
from typing import Any

import tensorflow as tf

from elmo_tf.models.language_model import LanguageModel
from elmo_tf.trainers.cluster import Cluster
from elmo_tf.trainers.optimizers import RowOptimizer, WeightAverage, clip_by_global_norm

_fold_in = tf.random.experimental.stateless_fold_in
# Folded into the seed of a step, so that all draw different numbers.
_DROPOUT, _NEGATIVES, _RESETS = range(3)
# A gradient whose norm exceeds the running norm by this factor is replaced by zero.
_OUTLIER = 10
_MEASURED_STEPS = 100  # before the first limit: norms rise at the beginning of a run
_NORM_SMOOTHING = 0.01  # weight of a later step in the running norm


class TrainStep:
    """Trains a language model on one window, and carries the LSTM states to the next.

    The loss is the mean of both directions' mean negative log-likelihoods, estimated by the sampled
    softmax. As in the original, the gradient is that of the loss times the number of tokens of a
    row; it is summed over all replicas and then clipped by its global norm. Gradients do not cross
    windows (truncated backpropagation through time).

    Unlike in the original, a gradient whose norm is more than 10 times the running norm (a moving
    geometric mean) is replaced by zero: exploding gradients can ruin a run, even if they are
    clipped. This begins with step 101.

    Create it, and its model, within the scope of the cluster's strategy. `num_rows` are the batch
    rows of all replicas together. The seed, the step and the replica determine all random numbers.

    Source: Peters et al. 2018, section 3.1; the settings of the original.
    """

    def __init__(
        self,
        model: LanguageModel,
        optimizer: RowOptimizer,
        num_rows: int,
        dropout: float,
        clip_norm: float,
        seed: int,
        reset_states: float = 0.0,
        ema: float = 0.0,
        cluster: Cluster | None = None,
    ):
        self.model = model
        self.optimizer = optimizer
        self.dropout = dropout
        self.clip_norm = clip_norm
        self.seed = seed
        self.reset_states = reset_states
        self.cluster = cluster or Cluster(tf.distribute.get_strategy())
        shared = {"trainable": False, "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
        self.step = tf.Variable(0, dtype=tf.int64, name="step", **shared)
        self.running_norm = tf.Variable(0.0, name="running_norm", **shared)
        rows = num_rows // self.cluster.num_replicas
        per_replica = {
            "trainable": False,
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.NONE,
        }
        self.states = tf.nest.map_structure(
            lambda state: tf.Variable(state, **per_replica), model.bilm.zero_states(rows)
        )
        self.trainable = model.trainable_weights
        optimizer.build(self.trainable)
        self.average = WeightAverage(self.trainable, ema)

        def run(*args: Any) -> dict[str, Any]:  # not a lambda, whose name TensorFlow's errors show
            return self.cluster.strategy.run(self._replica_step, args=args)

        # One function per instance: a decorated method is shared by all of them.
        self._run = tf.function(run, reduce_retracing=True, autograph=False)

    def __call__(
        self, inputs: tf.Tensor, targets: tf.Tensor, signal: int = 0
    ) -> dict[str, tf.Tensor]:
        """Trains on one window, see `LMWindows`, of the rows of all replicas of this process.

        Returns scalars: "loss", "forward" and "backward" (mean negative log-likelihoods, sampled),
        "norm" (global gradient norm before clipping), "skipped" (1 if the gradient was replaced by
        zero, otherwise 0), and "signal" (the largest `signal` of all processes).
        """
        shard = self.cluster.shard
        results = self._run(shard(inputs), shard(targets), tf.constant(signal))
        return {name: self.cluster.local(value)[0] for name, value in results.items()}

    def _replica_step(
        self, inputs: tf.Tensor, targets: tf.Tensor, signal: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        seed = _fold_in((self.seed, 0), self.step)
        if self.cluster.num_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            seed = _fold_in(seed, replica)
        gradients, losses = self._gradients(inputs, targets, seed)
        gradients, losses, signal = self._reduced(gradients, losses, signal)
        is_measured = self.step >= _MEASURED_STEPS
        max_norm = tf.where(is_measured, _OUTLIER * self.running_norm, math.inf)
        gradients, norm = clip_by_global_norm(gradients, self.clip_norm, max_norm)
        self.optimizer.apply(gradients, self.trainable)
        self.average.update(self.step)
        self._update_running_norm(norm)
        self.step.assign_add(1)
        results = {"loss": tf.reduce_mean(losses), "norm": norm, "signal": signal}
        results["skipped"] = tf.cast(norm > max_norm, tf.int32)
        return results | dict(zip(("forward", "backward"), tf.unstack(losses), strict=False))

    def _update_running_norm(self, norm: tf.Tensor) -> None:
        """Updates the geometric mean, on which a single outlier has little effect."""
        weight = tf.maximum(_NORM_SMOOTHING, 1 / (tf.cast(self.step, tf.float32) + 1))
        norm, mean = tf.maximum(norm, 1e-6), self.running_norm
        mean.assign(tf.where(self.step == 0, norm, mean * (norm / mean) ** weight))

    def _reduced(self, gradients: list, losses: tf.Tensor, signal: tf.Tensor) -> tuple:
        """Over all replicas: summed gradients, mean losses, and the largest signal."""
        count = self.cluster.num_replicas
        if count == 1:
            return gradients, losses, signal
        # Each replica puts its signal at its own position, so the sum contains all signals.
        context = tf.distribute.get_replica_context()
        position = tf.one_hot(context.replica_id_in_sync_group, count)
        message = tf.concat([losses / count, position * tf.cast(signal, losses.dtype)], axis=0)
        *gradients, message = context.all_reduce(tf.distribute.ReduceOp.SUM, [*gradients, message])
        losses, signals = tf.split(message, [losses.shape[0], count])
        return gradients, losses, tf.cast(tf.reduce_max(signals), signal.dtype)

    def _gradients(
        self, inputs: tf.Tensor, targets: tf.Tensor, seed: tf.Tensor
    ) -> tuple[list, tf.Tensor]:
        """The gradients of this replica's rows, and their losses, float (direction,)."""
        with tf.GradientTape() as tape:
            losses, states = self._losses(inputs, targets, seed)
            tokens = tf.cast(tf.shape(inputs)[-1], losses.dtype)
            scaled = tf.reduce_mean(losses) * tokens / self.cluster.num_replicas
        gradients = tape.gradient(scaled, [weight.value for weight in self.trainable])
        tf.nest.map_structure(lambda old, new: old.assign(new), self.states, states)
        return gradients, losses

    def _losses(
        self, inputs: tf.Tensor, targets: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, Any]:
        """The mean loss of each direction, float (direction,), and the new states."""
        calls, dropout_seed = itertools.count(), _fold_in(seed, _DROPOUT)

        def dropout(inputs: tf.Tensor) -> tf.Tensor:
            """The seed and the index of the call determine the mask."""
            call_seed = _fold_in(dropout_seed, next(calls))
            return tf.nn.experimental.stateless_dropout(inputs, self.dropout, seed=call_seed)

        states = tf.nest.map_structure(tf.identity, self.states)
        if self.reset_states:
            rows = tf.shape(inputs)[1], 1
            drawn = tf.random.stateless_uniform(rows, _fold_in(seed, _RESETS))
            is_kept = drawn >= self.reset_states
            states = tf.nest.map_structure(
                lambda state: tf.where(is_kept, state, tf.zeros_like(state)), states
            )
        outputs, states = self.model.top_layer_outputs(
            inputs, states, dropout if self.dropout else None, training=True
        )
        losses = []
        for direction, (top, ids) in enumerate(
            zip(outputs, self.model.targets(targets), strict=True)
        ):
            top = tf.reshape(top, (-1, top.shape[-1]))  # (row · token, feature)
            sample_seed = _fold_in(_fold_in(seed, _NEGATIVES), direction)
            losses.append(tf.reduce_mean(self.model.softmax(top, ids, seed=sample_seed)))
        return tf.stack(losses), states
