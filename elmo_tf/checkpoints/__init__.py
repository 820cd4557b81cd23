"""Loading and saving of checkpoints in all supported formats."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "load_bilm": "elmo_tf.checkpoints.load",
    "save_bilm": "elmo_tf.checkpoints.published",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
