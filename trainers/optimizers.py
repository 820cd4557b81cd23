"""Learning rate schedules, moving averages, and optimizers that update only used rows of tables."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

_FINAL_FRACTION = 0.1  # of the highest rate, at the end of the cosine
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # of AdamW


def learning_rate_schedule(
    name: str, learning_rate: float, warmup_steps: int, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Creates the schedule "constant" or "cosine" (Loshchilov and Hutter 2017).

    For the highest `learning_rate` and the warm-up, which is part of `total_steps`, see
    `PretrainConfig`.
    """
    warmup_steps = min(warmup_steps, total_steps // 2)
    return keras.optimizers.schedules.CosineDecay(
        # The rate of the first warm-up step is above 0.
        learning_rate / max(warmup_steps, 1),
        decay_steps=total_steps - warmup_steps,
        alpha=1.0 if name == "constant" else _FINAL_FRACTION,
        warmup_target=learning_rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )


class RowOptimizer:
    """The base class of optimizers that update only the rows of a table that a gradient has.

    Each replica updates its own variables. The gradients are those that `clip_by_global_norm`
    returns: summed over all replicas, and with each row of a sparse gradient once. The optimizers
    of Keras would sum them again, and make sparse gradients dense, (vocabulary, projection_dim) in
    every step.

    Subclasses implement `update(weight, gradient, slots, rate, step)`, which updates one weight by
    a tensor or `tf.IndexedSlices` in a step from 1 on; `weight` and `slots`, in the order of
    `slot_names`, are the handles of the variables.

    Args:
        learning_rate: float or a schedule.

    Attributes:
        variables: the number of steps, and after `build` the slots of each weight.
    """

    name: str  # the first part of the names of the variables
    slot_names: tuple[str, ...]
    initializer = "zeros"  # of the slots

    def __init__(self, learning_rate: Any):
        self.learning_rate = learning_rate

    def build(self, weights: Sequence[keras.Variable]) -> None:
        """Creates the variables of the optimizer, within the scope of the strategy."""

        def slot(weight: keras.Variable, name: str) -> keras.Variable:
            name = f"{weight.path.replace('/', '_')}_{name}"
            return keras.Variable(
                self.initializer, weight.shape, weight.dtype, trainable=False, name=name
            )

        with keras.name_scope(self.name):
            first = {"aggregation": "only_first_replica", "name": "iteration"}
            self.iterations = keras.Variable(0, dtype="int64", trainable=False, **first)
            self._slots = [[slot(weight, name) for name in self.slot_names] for weight in weights]
        self.variables = [self.iterations, *itertools.chain.from_iterable(self._slots)]

    def apply(self, gradients: Sequence[Any], weights: Sequence[keras.Variable]) -> None:
        """Updates the weights that were passed to `build` by their gradients."""
        rate = self.learning_rate
        rate = tf.cast(rate(self.iterations) if callable(rate) else rate, tf.float32)
        step = tf.cast(self.iterations + 1, tf.float32)
        for gradient, weight, slots in zip(gradients, weights, self._slots, strict=True):
            # Handles: those of this replica.
            self.update(weight.value.handle, gradient, [s.value.handle for s in slots], rate, step)
        self.iterations.assign_add(1)


class Adagrad(RowOptimizer):
    """Adagrad, the optimizer of the original.

    `a = a + g²`, from 1 on, `v = v - learning_rate · g / sqrt(a)`

    Source: Duchi et al. 2011; the settings of Peters et al. 2018.
    """

    name = "adagrad"
    slot_names = ("accumulator",)
    initializer = "ones"

    def update(self, weight, gradient, slots, rate, step):
        settings = {"var": weight, "accum": slots[0], "lr": rate, "epsilon": tf.zeros(())}
        if isinstance(gradient, tf.IndexedSlices):
            settings |= {"grad": gradient.values, "indices": gradient.indices}
            tf.raw_ops.ResourceSparseApplyAdagradV2(**settings)
        else:
            tf.raw_ops.ResourceApplyAdagradV2(**settings, grad=gradient)


class AdamW(RowOptimizer):
    """Adam with decoupled weight decay, and lazy updates for sparse gradients.

    `m = beta_1 · m + (1 - beta_1) · g`, `s = beta_2 · s + (1 - beta_2) · g²`, from 0 on,
    `v = v - learning_rate · (weight_decay · v + r · m / (sqrt(s) + epsilon))` with
    `r = sqrt(1 - beta_2^t) / (1 - beta_1^t)` in step `t`, counted from 1.

    Rows without a gradient keep their values and moments, while Adam would continue to move them.
    No tensor of the size of the table is created. Biases (variables with fewer than two axes) have
    no weight decay.

    Source: Kingma and Ba 2015; Loshchilov and Hutter 2019.
    """

    name = "adamw"
    slot_names = ("mean", "square")

    def __init__(self, learning_rate: Any, weight_decay: float = 0.0):
        super().__init__(learning_rate)
        self.weight_decay = weight_decay

    def update(self, weight, gradient, slots, rate, step):
        beta_1_power, beta_2_power = _BETA_1**step, _BETA_2**step
        is_sparse = isinstance(gradient, tf.IndexedSlices)
        values = gradient.values if is_sparse else gradient
        has_decay = self.weight_decay and len(values.shape) > 1
        decay = rate * self.weight_decay  # of each weight, in this step
        if not is_sparse:
            if has_decay:
                value = tf.raw_ops.ReadVariableOp(resource=weight, dtype=gradient.dtype)
                tf.raw_ops.AssignSubVariableOp(resource=weight, value=value * decay)
            powers = {"beta1_power": beta_1_power, "beta2_power": beta_2_power}
            settings = {"beta1": _BETA_1, "beta2": _BETA_2, "epsilon": _EPSILON, "lr": rate}
            tf.raw_ops.ResourceApplyAdam(
                var=weight, m=slots[0], v=slots[1], grad=gradient, **powers, **settings
            )
            return
        rows = gradient.indices
        mean = _decayed_mean(slots[0], rows, values, _BETA_1)
        square = _decayed_mean(slots[1], rows, values**2, _BETA_2)
        scaled_rate = rate * tf.sqrt(1 - beta_2_power) / (1 - beta_1_power)
        change = scaled_rate * mean / (tf.sqrt(square) + _EPSILON)  # (row, …)
        if has_decay:
            change += decay * tf.raw_ops.ResourceGather(
                resource=weight, indices=rows, dtype=change.dtype
            )
        tf.raw_ops.ResourceScatterSub(resource=weight, indices=rows, updates=change)


def _decayed_mean(slot: tf.Tensor, rows: tf.Tensor, values: tf.Tensor, memory: float) -> tf.Tensor:
    """Updates rows of an exponential moving average, and returns them."""
    before = tf.raw_ops.ResourceGather(resource=slot, indices=rows, dtype=values.dtype)
    after = before + (values - before) * (1 - memory)
    tf.raw_ops.ResourceScatterUpdate(resource=slot, indices=rows, updates=after)
    return after


def sum_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums the duplicate rows of a sparse gradient, before its norm or square is computed."""
    indices, segments = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, segments, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def clip_by_global_norm(
    gradients: list, clip_norm: float, max_norm: Any = float("inf")
) -> tuple[list, tf.Tensor]:
    """Scales all gradients so that their global norm is at most `clip_norm`; above `max_norm` to 0.

    Returns the gradients, of which `tf.IndexedSlices` stay sparse but have each row once, and their
    norm before scaling.
    """
    gradients = [
        sum_duplicates(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]
    norm = tf.linalg.global_norm(gradients)
    scale = tf.where(norm <= max_norm, clip_norm / tf.maximum(norm, clip_norm), 0.0)

    def scaled(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = scaled(gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return tf.math.multiply_no_nan(gradient, scale)  # 0 times infinity is 0

    return list(map(scaled, gradients)), norm


class WeightAverage:
    """A moving average of weights: `average = d · average + (1 - d) · weight` per step.

    `d = min(decay, (1 + t) / (10 + t))` in step `t`, counted from 0: the average forgets the
    initial weights, also in short runs.

    Keras optimizers average too, but replace the weights by their averages after `fit`.

    With `decay` 0 there are no averages, and the methods do nothing. `variables` are the averages.
    """

    def __init__(self, weights: Sequence[keras.Variable], decay: float):
        self._decay = decay
        self._weights = list(weights) if decay else []
        self.variables = [
            keras.Variable(keras.ops.convert_to_numpy(weight), trainable=False, name="average")
            for weight in self._weights
        ]

    def update(self, step: Any) -> None:
        """Updates the averages after step `t`. Call it on every replica."""
        share = tf.maximum(1.0 - self._decay, 9 / (10 + tf.cast(step, tf.float32)))
        for average, weight in zip(self.variables, self._weights, strict=True):
            change = tf.cast(share, average.dtype) * (weight.value - average.value)
            # The variable of this replica; `assign_add` would need a merge of all replicas.
            tf.raw_ops.AssignAddVariableOp(resource=average.value.handle, value=change)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Replaces the weights by their averages within the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for average, weight in zip(self.variables, self._weights, strict=True):
            value = tf.identity(weight.value)
            weight.assign(average.value)
            average.assign(value)
