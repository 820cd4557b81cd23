"""Exported models: written, checked, loaded as a layer, served, and asked over the network."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "Client": "elmo_tf.saved_models.client",
    "PunctuationSplitter": "elmo_tf.saved_models.tokenizers",
    "export": "elmo_tf.saved_models.exporting",
    "export_task": "elmo_tf.saved_models.task_exporting",
    "load": "elmo_tf.saved_models.layer",
    "serve": "elmo_tf.saved_models.serving.server",
    "write_server_files": "elmo_tf.saved_models.server_files",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
