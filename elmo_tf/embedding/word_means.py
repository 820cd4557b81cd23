"""Given words ─► their tokens ─► one vector per word, such as the labeled words of a treebank."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.text.tokenizers import LanguageTokenizer, align


class WordMeans:
    """Computes one vector per given word: the mean over its tokens, see `align`; or else zeros.

    It has the methods of an `Embedder` that measures and task models use.

    Args:
        embedder: an `Embedder` with a tokenizer.

    Raises:
        ValueError: the embedder has no tokenizer.

    Example:
        >>> from elmo_tf.embedding.word_means import WordMeans
        >>> embedder = elmo_tf.Embedder("small-en", tokenizer="model")
        >>> [vectors.shape for vectors in WordMeans(embedder).embed([["I", "don't"]])]
        [(3, 2, 384)]
    """

    def __init__(self, embedder: Embedder):
        if embedder.tokenizer is None:
            raise ValueError("This Embedder has no tokenizer: Embedder(…, tokenizer='model').")
        self.layers, self.precision = embedder.layers, embedder.precision
        self.num_layers, self.dim = embedder.num_layers, embedder.dim
        self._embedder = embedder

    def settings(self) -> dict[str, Any]:
        """Everything that the vectors depend on, beside the `inputs`."""
        settings, tokenizer = self._embedder.settings(), self._embedder.tokenizer
        name = repr(tokenizer) if isinstance(tokenizer, LanguageTokenizer) else "a function"
        return {**settings, "model": f"{settings['model']} {name}"}

    def inputs(self, sentences: Iterable[Sequence[str]]) -> Iterable[Sequence[Any]]:
        """Sentences as their vectors depend on them: if a function splits them, with its tokens."""
        is_named = isinstance(self._embedder.tokenizer, LanguageTokenizer)
        return sentences if is_named else self._aligned(sentences)

    def embed(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """Yields the vectors of each sentence, float32 (…, word, feature)."""
        aligned, copy = itertools.tee(self._aligned(sentences))
        arrays = self._embedder.embed(tokens for _, tokens, _ in copy)
        for (num_words, _, owners), array in zip(aligned, arrays, strict=True):
            yield means_of_parts(array, owners, num_words)

    def _aligned(self, sentences: Iterable[Sequence[str]]) -> Iterator[tuple]:
        """Yields the number of words of each sentence, its tokens and their words, see `align`."""
        return ((len(each), *align(each, self._embedder.tokenizer)) for each in sentences)


def means_of_parts(vectors: np.ndarray, owners: Sequence[int], num_words: int) -> np.ndarray:
    """The mean vector of the parts of each word; zeros for a word without parts.

    From vectors (…, part, feature) and the index of the word of each part (ascending; -1 if it is
    of none), returns (…, word, feature).
    """
    owners = np.array(owners, int)
    is_part = owners >= 0
    words, starts, counts = np.unique(owners[is_part], return_index=True, return_counts=True)
    sums = np.add.reduceat(vectors[..., is_part, :], starts, axis=-2)
    means = np.zeros((*vectors.shape[:-2], num_words, vectors.shape[-1]), vectors.dtype)
    means[..., words, :] = sums / counts[:, np.newaxis]
    return means
