"""An exponential moving average of weights during training."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf


class WeightAverage:
    """A moving average of weights: `average = decay · average + (1 - decay) · weight` per step.

    Keras optimizers can average too, but replace the weights by their averages at the end of
    `fit`, which a run calls once per epoch.

    Args:
        weights: variables; their values are the first averages.
        decay: float, 0 to below 1.

    Attributes:
        variables: the averages, in the order of the weights.
    """

    def __init__(self, weights: Sequence[keras.Variable], decay: float):
        self._weights = list(weights)
        self.variables = [
            keras.Variable(keras.ops.convert_to_numpy(weight), trainable=False, name="average")
            for weight in weights
        ]

        def update() -> None:
            for average, weight in zip(self.variables, self._weights, strict=True):
                average.assign_add((1 - decay) * (weight.value - average.value))

        self.update = tf.function(update, autograph=False)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Gives the weights their averages within the block."""
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
