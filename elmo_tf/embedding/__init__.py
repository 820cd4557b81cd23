"""Sentences ─► vectors: any number of sentences, in bounded memory, in input order."""

from elmo_tf.lazy import lazy_names

# The names of the vectors of a sentence, see `Embedder`; a number is also allowed.
LAYERS = ("all", "concat", "average", "sum", "top", "mix")

_HOMES = {"Embedder": "elmo_tf.embedding.embedder"}

__all__ = ["LAYERS", *_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
