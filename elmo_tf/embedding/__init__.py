"""Sentences ─► vectors: any number of sentences, in bounded memory, in input order."""

from elmo_tf.lazy import lazy_names

_HOMES = {"Embedder": "elmo_tf.embedding.embedder"}

__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
