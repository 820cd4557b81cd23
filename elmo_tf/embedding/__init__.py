"""Sentences ─► vectors: any number of them, in bounded memory, in the input's order."""

from elmo_tf.lazy import lazy_names

_HOMES = {
    "Embedder": "elmo_tf.embedding.embedder",
}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
