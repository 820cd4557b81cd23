"""Adagrad that touches only the rows of a large table that a step has used."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="elmo_tf")
class Adagrad(keras.optimizers.Optimizer):
    """Adagrad, as the original trains with it.

    `a = a + g²`, `v = v - learning_rate · g / sqrt(a)`

    Gradients of gathered rows (`tf.IndexedSlices`) update those rows alone. Keras's own Adagrad
    makes them dense, (vocabulary, projection_dim) in every step.

    Args:
        learning_rate: float or a schedule. Defaults to 0.2.
        initial_accumulator_value: float > 0, the first `a`. Defaults to 1.

    Source: Duchi et al. 2011; the settings of Peters et al. 2018.
    """

    def __init__(
        self,
        learning_rate: float = 0.2,
        initial_accumulator_value: float = 1.0,
        name: str = "adagrad",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        if initial_accumulator_value <= 0:
            raise ValueError(
                "`initial_accumulator_value` must be above 0. "
                f"Received: {initial_accumulator_value}"
            )
        self.initial_accumulator_value = initial_accumulator_value

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        initializer = keras.initializers.Constant(self.initial_accumulator_value)
        self._accumulators = [
            self.add_variable_from_reference(variable, name="accumulator", initializer=initializer)
            for variable in variables
        ]

    def update_step(self, gradient, variable, learning_rate):
        accumulator = self._accumulators[self._get_variable_index(variable)]
        common = {
            "var": variable.handle,
            "accum": accumulator.value.handle,
            "lr": tf.cast(learning_rate, variable.dtype),
            "epsilon": tf.zeros((), variable.dtype),
        }
        if isinstance(gradient, tf.IndexedSlices):
            gradient = sum_duplicates(gradient)
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                **common, grad=gradient.values, indices=gradient.indices
            )
        else:
            tf.raw_ops.ResourceApplyAdagradV2(**common, grad=gradient)

    def get_config(self):
        return {
            **super().get_config(),
            "initial_accumulator_value": self.initial_accumulator_value,
        }


def sum_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient with each row once: needed for its norm, and for its square."""
    indices, place = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, place, tf.size(indices))
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def clip_by_global_norm(gradients: list, clip_norm: float) -> tuple[list, tf.Tensor]:
    """Scales all gradients together to a norm of at most `clip_norm`, sparse ones as they are.

    Returns:
        The gradients, each row of a sparse one once, and their norm before.
    """
    gradients = [
        sum_duplicates(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]
    return tf.clip_by_global_norm(gradients, clip_norm)
