"""Weights of Keras layers on TensorFlow: those in lists, and large tables."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


class TrackedParts:
    """A base class of layers that keep weights or layers in lists, or have a lookup table.

    TensorFlow finds the attributes of a Keras layer, but neither the items of its lists nor tables.
    """

    lookup_table: Any = None  # a `tf.lookup.StaticHashTable`

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        import tensorflow as tf

        tracking = tf.__internal__.tracking
        for name in self._tracked:
            items = getattr(self, name)
            known = self._lookup_dependency(name)  # TensorFlow needs the same object in each call
            if not isinstance(items, list) or (known is not None and len(known) == len(items)):
                continue
            if any(isinstance(item, tracking.Trackable) for item in items):
                self._track_trackable(tracking.wrap(list(items)), name, overwrite=True)
        children = super()._trackable_children(save_type, **kwargs)
        if save_type == "savedmodel" and self.lookup_table is not None:
            children["lookup_table"] = self.lookup_table
        return children


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
        return tf.function(lambda: initializer(shape, dtype=dtype), autograph=False)()

    return draw
