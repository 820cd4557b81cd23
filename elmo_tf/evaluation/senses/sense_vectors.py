"""Sentences with senses ─► for each sense the mean vector of its occurrences, in every layer."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.senses.inventory import SenseInventory
from elmo_tf.evaluation.senses.sense_corpus import LemmaPos, Occurrence, SenseSentence
from elmo_tf.evaluation.whitening import Moments, Whitening

# Layer 0 gives a token the same vector in every sentence, so that means of different senses may
# differ by rounding alone.
_ROUNDING = 1e-6
# Occurrences whose vectors are taken into a covariance at once.
_AT_ONCE = 1024

OccurrenceVectors = Iterable[tuple[Occurrence, np.ndarray]]


def occurrence_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[Occurrence, np.ndarray]]:
    """Gives the occurrences of some lemmas, and their vectors.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        sentences: those without such an occurrence are passed over; some are read ahead.
        lemmas: with their parts of speech.

    Yields:
        Each occurrence, with the mean of its tokens' vectors: float32 (layer, feature).

    Raises:
        ValueError: such a vector is not finite.
    """
    needed = (
        sentence
        for sentence in sentences
        if any(occurrence.lemma_pos in lemmas for occurrence in sentence.occurrences)
    )
    embedded, needed = itertools.tee(needed)
    arrays = embedder.embed(sentence.tokens for sentence in embedded)
    for array, sentence in zip(arrays, needed, strict=True):
        for occurrence in sentence.occurrences:
            if occurrence.lemma_pos in lemmas:
                vectors = array[:, occurrence.first : occurrence.end].mean(axis=1)
                if not np.isfinite(vectors).all():  # nothing would be near it or far from it
                    raise ValueError(
                        f"Vectors of {occurrence.id!r} are not finite (NaN or infinity): the "
                        "model's weights are damaged, or far too large."
                    )
                yield occurrence, vectors


class LemmaSenses(NamedTuple):
    """The senses of a lemma that occurred.

    Of senses that are equally near to a vector, both methods give the more frequent one.

    keys: of the senses, the most frequent first.
    means: float32 (layer, sense, feature). Their mean vectors.
    """

    keys: list[str]
    means: np.ndarray

    def nearest_by_cosine(self, vectors: np.ndarray) -> list[str]:
        """In each layer the sense whose mean has the largest cosine with a vector.

        Args:
            vectors: float (layer, feature).
        """
        products = np.einsum("lsf,lf->ls", self.means, vectors)
        norms = np.linalg.norm(self.means, axis=-1) * np.linalg.norm(vectors, axis=-1)[:, None]
        return self._first_of_best(products / np.where(norms > 0, norms, 1))

    def nearest_by_mahalanobis(
        self, vectors: np.ndarray, whitenings: Sequence[Whitening]
    ) -> list[str]:
        """In each layer the sense whose mean is at the least Mahalanobis distance from a vector.

        Args:
            vectors: float (layer, feature).
            whitenings: of each layer.
        """
        return self._first_of_best(
            np.stack(
                [
                    -np.mean(((means - vector) @ whiten.matrix) ** 2, axis=-1)
                    for means, vector, whiten in zip(self.means, vectors, whitenings, strict=True)
                ]
            )
        )

    def _first_of_best(self, nearness: np.ndarray) -> list[str]:
        """Of each layer the key for which (layer, sense) is largest, but for rounding."""
        best = nearness.max(axis=1, keepdims=True)
        return [self.keys[place] for place in (nearness >= best - _ROUNDING).argmax(axis=1)]


class OccurrenceMoments:
    """Means and covariances of the vectors of occurrences, of each layer by itself.

    Args:
        num_layers, dim: ints.
    """

    def __init__(self, num_layers: int, dim: int):
        self._moments = [Moments(dim) for _ in range(num_layers)]

    def of(self, occurrences: OccurrenceVectors) -> Iterator[tuple[Occurrence, np.ndarray]]:
        """Gives what it is given, and takes the vectors in."""
        occurrences = iter(occurrences)
        while part := list(itertools.islice(occurrences, _AT_ONCE)):
            vectors = np.stack([vectors for _, vectors in part], axis=1)
            for moments, of_layer in zip(self._moments, vectors, strict=True):
                moments.add(of_layer)  # (occurrence, feature)
            yield from part

    def whitenings(self) -> list[Whitening]:
        """Of each layer; none if nothing was taken in.

        The correlations are shrunk by `dim / (dim + occurrences)`: with as many occurrences as
        features they count half.
        """
        if not self._moments[0].count:
            return []
        return [
            Whitening(moments, len(moments.mean) / (len(moments.mean) + moments.count))
            for moments in self._moments
        ]


def mean_sense_vectors(
    occurrences: OccurrenceVectors, inventory: SenseInventory
) -> dict[LemmaPos, LemmaSenses]:
    """The senses of each lemma that occurs, by the mean vectors of their occurrences.

    An occurrence with several gold keys counts for each of them. Of all vectors only sums are
    kept, one for each sense and layer.

    Args:
        occurrences: with their vectors, float (layer, feature).
        inventory: gives the order of senses that occur equally often; a sense that it lacks comes
            behind the others.
    """
    sums: dict[LemmaPos, dict[str, np.ndarray]] = {}
    counts: dict[LemmaPos, dict[str, int]] = {}
    for occurrence, vectors in occurrences:
        of_lemma = sums.setdefault(occurrence.lemma_pos, {})
        numbers = counts.setdefault(occurrence.lemma_pos, {})
        for sense in occurrence.senses:
            if sense in of_lemma:
                of_lemma[sense] += vectors
            else:
                of_lemma[sense] = vectors.copy()
            numbers[sense] = numbers.get(sense, 0) + 1
    return {
        # A lemma's sums are let go as soon as its means are known.
        lemma_pos: _lemma_senses(sums.pop(lemma_pos), numbers, inventory.senses(*lemma_pos))
        for lemma_pos, numbers in counts.items()
    }


def _lemma_senses(
    sums: dict[str, np.ndarray], counts: dict[str, int], order: list[str]
) -> LemmaSenses:
    rank = {sense: number for number, sense in enumerate(order)}
    keys = sorted(sums, key=lambda sense: (-counts[sense], rank.get(sense, len(rank))))
    numbers = np.array([counts[sense] for sense in keys], np.float32)
    means = np.stack([sums[sense] for sense in keys], axis=1)  # (layer, sense, feature)
    means /= numbers[:, None]
    return LemmaSenses(keys, means)
