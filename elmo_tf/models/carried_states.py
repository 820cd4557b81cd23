"""LSTM states that are carried from batch to batch, separately for each batch row."""

from collections.abc import Sequence

import tensorflow as tf

from elmo_tf.config import BiLMConfig

# For each direction, for each layer: h and c.
States = Sequence[Sequence[Sequence[tf.Tensor]]]


class CarriedStates:
    """The last `[h, c]` of every batch row of a stateful biLM."""

    def __init__(self, config: BiLMConfig, dtype: str):
        def empty(size: int) -> tf.Variable:
            shape = tf.TensorShape((None, size))
            return tf.Variable(tf.zeros((0, size), dtype), shape=shape, trainable=False)

        self._variables = [
            [list(map(empty, config.lstm.state_sizes)) for _ in range(config.lstm.num_layers)]
            for _ in range(config.num_directions)
        ]

    def read(self, initial: States) -> States:
        """Returns the carried states of the first rows, and `initial` for rows not yet carried."""

        def resume(carried: tf.Variable, start: tf.Tensor) -> tf.Tensor:
            seen = carried.value()[: tf.shape(start)[0]]
            state = tf.concat([seen, start[tf.shape(seen)[0] :]], axis=0)
            return tf.ensure_shape(state, start.shape)

        return tf.nest.map_structure(resume, self._variables, initial)

    def write(self, states: States) -> None:
        """Stores the states of the first rows; the states of further rows are unchanged."""

        def keep(carried: tf.Variable, state: tf.Tensor) -> None:
            carried.assign(tf.concat([state, carried[tf.shape(state)[0] :]], axis=0))

        tf.nest.map_structure(keep, self._variables, states)

    def reset(self) -> None:
        """Removes the states of all rows."""
        for variable in tf.nest.flatten(self._variables):
            variable.assign(tf.zeros((0, variable.shape[1]), variable.dtype))
