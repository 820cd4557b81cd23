"""An exponential moving average of weights during training."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf


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
