"""What TensorFlow's own checkpoints and SavedModels contain of a layer."""

from typing import Any


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
