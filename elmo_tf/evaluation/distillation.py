"""BiLM ─► static word vectors: one per word, in files of word2vec's text format."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.files import atomic_file
from elmo_tf.models.bilm import BiLM
from elmo_tf.text.reading import encode

_WORDS_AT_ONCE = 1024


def layer_0_vectors(bilm: BiLM, words: Sequence[str]) -> Iterator[np.ndarray]:
    """Yields the vectors of words without context: layer 0, float32 (projection_dim,)."""
    for start in range(0, len(words), _WORDS_AT_ONCE):
        vectors = bilm.token_embeddings(list(words[start : start + _WORDS_AT_ONCE]))
        yield from np.asarray(vectors, np.float32)


def mean_vectors(
    embedder: Embedder, sentences: Iterable[Sequence[str]], words: Sequence[str]
) -> np.ndarray:
    """Means of the contextual vectors of each of the distinct words over its occurrences.

    `embedder` returns one vector per token; `sentences` are lists of tokens. Returns float32 (word,
    feature); zeros for a word that does not occur.
    """
    rows = {word: row for row, word in enumerate(words)}
    sums = np.zeros((len(words), embedder.dim))  # float64: words may occur millions of times
    counts = np.zeros(len(words), np.int64)
    sentences, embedded = itertools.tee(sentences)
    for tokens, vectors in zip(sentences, embedder.embed(embedded), strict=True):
        for token, vector in zip(tokens, vectors, strict=True):
            row = rows.get(token)
            if row is not None:
                sums[row] += vector
                counts[row] += 1
    return (sums / np.maximum(counts, 1)[:, np.newaxis]).astype(np.float32)


def write_word_vectors(
    path: str | os.PathLike, words: Sequence[str], vectors: Iterable[np.ndarray], dim: int
) -> None:
    """Writes a file of word2vec's text format."""
    with atomic_file(path) as part, open(part, "wb") as file:
        file.write(f"{len(words)} {dim}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            numbers = " ".join(f"{value:.6g}" for value in vector)
            file.write(encode(word) + f" {numbers}\n".encode())
