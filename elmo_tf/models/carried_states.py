"""LSTM states that go from one batch to the next, row by row, as the original carries them."""

from collections.abc import Sequence

import tensorflow as tf

# For each direction, for each layer: h and c.
States = Sequence[Sequence[Sequence[tf.Tensor]]]


class CarriedStates:
    """The last `[h, c]` of every row that a stateful biLM has seen.

    Args:
        num_layers: int. Layers per direction.
        sizes: widths of `h` and `c`.
        num_directions: int, 1 or 2. Defaults to 2.
        dtype: of the states. Defaults to "float32".
    """

    def __init__(
        self,
        num_layers: int,
        sizes: Sequence[int],
        num_directions: int = 2,
        dtype: str = "float32",
    ):
        def rows(size: int) -> tf.Variable:
            shape = tf.TensorShape((None, size))
            return tf.Variable(tf.zeros((0, size), dtype), shape=shape, trainable=False)

        self._variables = [
            [[rows(size) for size in sizes] for _ in range(num_layers)]
            for _ in range(num_directions)
        ]

    def read(self, initial: States) -> States:
        """The states of the first rows; `initial` for those never seen before."""

        def resume(carried: tf.Variable, start: tf.Tensor) -> tf.Tensor:
            seen = carried.value()[: tf.shape(start)[0]]
            state = tf.concat([seen, start[tf.shape(seen)[0] :]], axis=0)
            return tf.ensure_shape(state, start.shape)

        return tf.nest.map_structure(resume, self._variables, _as_lists(initial))

    def write(self, states: States) -> None:
        """Keeps the states of the first rows; those of later rows stay as they are."""

        def keep(carried: tf.Variable, state: tf.Tensor) -> None:
            carried.assign(tf.concat([state, carried[tf.shape(state)[0] :]], axis=0))

        tf.nest.map_structure(keep, self._variables, _as_lists(states))

    def reset(self) -> None:
        """Forgets all rows."""
        for variable in tf.nest.flatten(self._variables):
            variable.assign(tf.zeros((0, variable.shape[1]), variable.dtype))


def _as_lists(states: States) -> list:
    return [[list(layer) for layer in direction] for direction in states]
