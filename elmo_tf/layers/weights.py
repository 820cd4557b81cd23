"""Weights of Keras layers on TensorFlow: those in lists, and large tables."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops


def set_attributes(layer: keras.layers.Layer, name: str, items: Sequence[Any]) -> None:
    """Sets the items of a list as attributes `name_0`, `name_1`, … of a layer.

    TensorFlow's checkpoints contain the attributes of a Keras layer, but not the items of lists.
    """
    for index, item in enumerate(items):
        setattr(layer, f"{name}_{index}", item)


def take_entries(variable: keras.Variable, ids: Any) -> Any:
    """Looks up entries of a table (entry, …) by ids (…), with a sparse gradient."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        # Reads only these entries. `ops.take` reads the complete table, which TensorFlow copies at
        # every read once an optimizer has written to some of its entries.
        return tf.gather(variable.value, ids)
    return ops.take(variable, ids, axis=0)


def table_normal(stddev: float) -> Callable:
    """An initializer with normal random numbers that needs little memory besides the table."""
    initializer = keras.initializers.RandomNormal(stddev=stddev)
    if keras.config.backend() != "tensorflow":
        return initializer
    import tensorflow as tf

    def draw(shape: Any, dtype: Any = None) -> Any:
        # In a graph, intermediate results are freed early.
        graph = tf.function(lambda: initializer(shape, dtype=dtype), autograph=False)
        return graph.get_concrete_function()()

    return draw
