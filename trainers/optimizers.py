"""Learning rate schedules, moving averages, and optimizers that update only used rows of tables."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

_FINAL_FRACTION = 0.1  # of the highest rate, at the end of the cosine


def optimizer_named(
    name: str, learning_rate: Any, weight_decay: float = 0.0
) -> keras.optimizers.Optimizer:
    """Creates an optimizer by its name.

    Args:
        name: "adagrad", "adam" (`AdamW` without weight decay) or "adamw".
        learning_rate: float or a schedule.
        weight_decay: float >= 0. For "adamw" only. Defaults to 0.
    """
    if name == "adagrad":
        return Adagrad(learning_rate)
    return AdamW(learning_rate, weight_decay=weight_decay, name=name)


def learning_rate_schedule(
    name: str, learning_rate: float, warmup_steps: int, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Creates a schedule by its name.

    Args:
        name: "constant"; "cosine", which decreases to a tenth of the rate (Loshchilov and Hutter
            2017); or "inverse_sqrt", which decreases with the inverse square root of the step
            (Vaswani et al. 2017).
        learning_rate: float > 0. The highest rate.
        warmup_steps: int >= 0. Steps during which the rate rises linearly, limited to half of all
            steps; at least 1 for "inverse_sqrt".
        total_steps: int >= 1. All steps, including the warm-up.
    """
    if name == "inverse_sqrt":
        return _InverseSqrtWithWarmup(learning_rate, min(warmup_steps, max(total_steps // 2, 1)))
    warmup_steps = min(warmup_steps, total_steps // 2)
    return keras.optimizers.schedules.CosineDecay(
        # The rate of the first warm-up step is above 0.
        learning_rate / max(warmup_steps, 1),
        decay_steps=total_steps - warmup_steps,
        alpha=1.0 if name == "constant" else _FINAL_FRACTION,
        warmup_target=learning_rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )


class _InverseSqrtWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """`rate = learning_rate · min(t / warmup_steps, sqrt(warmup_steps / t))` in step `t`, from 1.

    The argument `step` of a call is the optimizer's `iterations`, `t - 1`.

    Source: Vaswani et al. 2017, section 5.3, scaled to the highest rate.
    """

    def __init__(self, learning_rate: float, warmup_steps: int):
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        count = ops.cast(step, "float32") + 1
        scale = ops.minimum(count / self.warmup_steps, ops.sqrt(self.warmup_steps / count))
        return self.learning_rate * scale


class _RowOptimizer(keras.optimizers.Optimizer):
    """The base class. Subclasses implement `update_step` for dense and sparse gradients.

    `apply` expects gradients as `clip_by_global_norm` returns them: summed over all replicas, and
    with each row of a sparse gradient once.
    """

    def _slot(self, slots: list, variable: tf.Variable) -> Any:
        """The handle of a variable's slot, on the same replica as the variable."""
        return slots[self._get_variable_index(variable)].value.handle

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # Keras would sum the gradients over the replicas a second time here.
        return grads_and_vars


class Adagrad(_RowOptimizer):
    """Adagrad, the optimizer of the original.

    `a = a + g²`, `v = v - learning_rate · g / sqrt(a)`

    Gradients of gathered rows (`tf.IndexedSlices`) update only these rows. Keras' Adagrad makes
    them dense, (vocabulary, projection_dim) in every step. Within `tf.distribute`, gradients must
    be summed over the replicas before they are applied.

    Args:
        learning_rate: float or a schedule. Defaults to 0.2.
        initial_accumulator_value: float > 0. Initial value of `a`. Defaults to 1.

    Source: Duchi et al. 2011; the settings of Peters et al. 2018.
    """

    def __init__(self, learning_rate: Any = 0.2, initial_accumulator_value: float = 1.0):
        super().__init__(learning_rate=learning_rate, name="adagrad")
        self.initial_accumulator_value = initial_accumulator_value

    def build(self, variables):
        if self.built:
            return
        super().build(variables)

        def initializer(shape: Any, dtype: Any) -> tf.Tensor:  # needs no memory besides the table
            return tf.fill(shape, tf.cast(self.initial_accumulator_value, dtype))

        self._accumulators = self.add_optimizer_variables(variables, "accumulator", initializer)

    def update_step(self, gradient, variable, learning_rate):
        settings = {
            "var": variable.handle,
            "accum": self._slot(self._accumulators, variable),
            "lr": tf.cast(learning_rate, variable.dtype),
            "epsilon": tf.zeros((), variable.dtype),
        }
        if isinstance(gradient, tf.IndexedSlices):
            settings |= {"grad": gradient.values, "indices": gradient.indices}
            tf.raw_ops.ResourceSparseApplyAdagradV2(**settings)
        else:
            tf.raw_ops.ResourceApplyAdagradV2(**settings, grad=gradient)


class AdamW(_RowOptimizer):
    """Adam with decoupled weight decay, and lazy updates for sparse gradients.

    `m = beta_1 · m + (1 - beta_1) · g`, `s = beta_2 · s + (1 - beta_2) · g²`,
    `v = v - learning_rate · (weight_decay · v + r · m / (sqrt(s) + epsilon))` with
    `r = sqrt(1 - beta_2^t) / (1 - beta_1^t)` in step `t`, counted from 1.

    Gradients of gathered rows (`tf.IndexedSlices`) update only these rows. All other rows keep
    their values and moments, while Adam would continue to move them. No tensor of the size of the
    table is created. Biases (variables with fewer than two axes) have no weight decay. Within
    `tf.distribute`, gradients must be summed over the replicas before they are applied.

    Args:
        learning_rate: float or a schedule. Defaults to 0.001.
        beta_1: float, 0 to below 1. Decay rate of the mean `m`. Defaults to 0.9.
        beta_2: float, 0 to below 1. Decay rate of the mean square `s`. Defaults to 0.999.
        epsilon: float > 0. Defaults to 1e-8.
        weight_decay: float >= 0. Defaults to 0, plain Adam.

    Source: Kingma and Ba 2015; Loshchilov and Hutter 2019.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        name: str = "adamw",
    ):
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, name=name)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._means, self._squares = self.add_optimizer_variables(variables, ["mean", "square"])

    def _apply_weight_decay(self, variables):
        # Keras would decay all rows and copy the table. `update_step` decays the used rows instead.
        pass

    def update_step(self, gradient, variable, learning_rate):
        dtype = variable.dtype
        rate, beta_1, beta_2, epsilon = (
            tf.cast(value, dtype)
            for value in (learning_rate, self.beta_1, self.beta_2, self.epsilon)
        )
        means, squares = self._slot(self._means, variable), self._slot(self._squares, variable)
        step = tf.cast(self.iterations + 1, dtype)
        beta_1_power, beta_2_power = beta_1**step, beta_2**step
        has_decay = self.weight_decay and len(variable.shape) > 1
        has_decay = has_decay and self._use_weight_decay(variable)
        decay = rate * self.weight_decay if has_decay else 0.0  # of each weight, in this step
        if not isinstance(gradient, tf.IndexedSlices):
            if has_decay:
                variable.assign_sub(variable * decay)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=means,
                v=squares,
                beta1_power=beta_1_power,
                beta2_power=beta_2_power,
                lr=rate,
                beta1=beta_1,
                beta2=beta_2,
                epsilon=epsilon,
                grad=gradient,
            )
            return
        rows = gradient.indices
        mean = _decayed_mean(means, rows, gradient.values, self.beta_1)
        square = _decayed_mean(squares, rows, gradient.values**2, self.beta_2)
        rate = rate * tf.sqrt(1 - beta_2_power) / (1 - beta_1_power)
        change = rate * mean / (tf.sqrt(square) + self.epsilon)  # (row, …)
        if has_decay:
            change += decay * tf.raw_ops.ResourceGather(
                resource=variable.handle, indices=rows, dtype=dtype
            )
        tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=rows, updates=change)


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
    """Scales all gradients so that their global norm is at most `clip_norm`.

    Args:
        gradients: tensors, or `tf.IndexedSlices`, which stay sparse.
        clip_norm: float > 0.
        max_norm: float. Gradients with a larger norm become zero. Defaults to no limit.

    Returns:
        The gradients, with each row of a sparse one once, and their norm before scaling.
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

    Args:
        weights: variables.
        decay: float, 0 to below 1. With 0 there are no averages, and the methods do nothing.

    Attributes:
        variables: the averages, in the order of the weights.
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
