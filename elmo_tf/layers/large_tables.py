"""Tables with a row for each token of a large vocabulary: never more copies than needed."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def take_rows(variable: keras.Variable, ids: Any) -> Any:
    """Rows of a table, (…, feature), whose gradient has the rows alone.

    Args:
        variable: float (row, feature) or (row,).
        ids: int (…), all of them rows.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        # Reads these rows alone. `ops.take` reads the whole table first, and TensorFlow copies it
        # at every such read once an optimizer has written to some of its rows.
        return tf.gather(variable.value, ids)
    return ops.take(variable, ids, axis=0)


def row_normal(stddev: float) -> Callable:
    """An initializer that draws normal numbers, in little more memory than the table's own.

    Args:
        stddev: float > 0.
    """
    initializer = keras.initializers.RandomNormal(stddev=stddev)
    if keras.config.backend() != "tensorflow":
        return initializer
    import tensorflow as tf

    def draw(shape: Any, dtype: Any = None) -> Any:
        # Outside a graph, the result of each operation on the way would be kept for a while.
        return tf.function(lambda: initializer(shape, dtype=dtype), autograph=False)()

    return draw


def filled(value: float) -> Callable:
    """An initializer that fills a table with one number, in no more memory than its own."""
    import tensorflow as tf

    return lambda shape, dtype=None: tf.fill(shape, tf.cast(value, dtype or "float32"))
