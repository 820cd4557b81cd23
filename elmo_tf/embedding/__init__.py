"""Sentences ─► vectors: any number of sentences, in bounded memory, in input order."""

# The names of the vectors of a sentence, see `Embedder`; a number is also allowed.
LAYERS = ("all", "concat", "average", "sum", "top", "mix")
