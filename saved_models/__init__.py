"""Exporting models, verifying them, loading them as a layer, serving them, and the client."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "Client": "elmo_tf.saved_models.client",
    "PunctuationSplitter": "elmo_tf.saved_models.exporting.signatures",
    "export": "elmo_tf.saved_models.exporting.export",
    "export_task": "elmo_tf.saved_models.exporting.task_exporting",
    "load": "elmo_tf.saved_models.exporting.layer",
    "serve": "elmo_tf.saved_models.server.server",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
