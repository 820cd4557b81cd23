"""Mean vectors of senses in every layer, and the nearest of them."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.senses.inventory import SenseInventory
from elmo_tf.evaluation.senses.sense_corpus import LemmaPos, Occurrence, SenseSentence
from elmo_tf.evaluation.whitening import Moments, Whitening

# In layer 0 a token has the same vector in every sentence, so that means of different senses may
# differ only by rounding errors.
_TOLERANCE = 1e-6
_OCCURRENCES_PER_UPDATE = 1024

OccurrenceVectors = Iterable[tuple[Occurrence, np.ndarray]]


def occurrence_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[Occurrence, np.ndarray]]:
    """Embeds the occurrences of some lemmas.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        sentences: those without such an occurrence are skipped; some are read ahead.
        lemmas: lemmas with their parts of speech.

    Yields:
        Each occurrence, with the mean of its tokens' vectors: float32 (layer, feature).

    Raises:
        ValueError: a vector is not finite.
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
                if not np.isfinite(vectors).all():
                    raise ValueError(
                        f"Vectors of {occurrence.id!r} are not finite (NaN or infinity): the "
                        "model's weights are damaged or far too large."
                    )
                yield occurrence, vectors


class LemmaSenses(NamedTuple):
    """The senses of a lemma in the training data.

    If several senses are equally near to a vector, both methods return the most frequent one.

    Attributes:
        keys: of the senses, the most frequent first.
        means: float32 (layer, sense, feature). Mean vectors of the senses.
    """

    keys: list[str]
    means: np.ndarray

    def nearest_by_cosine(self, vectors: np.ndarray) -> list[str]:
        """Returns for each layer the sense with the largest cosine, given (layer, feature)."""
        products = np.einsum("lsf,lf->ls", self.means, vectors)
        norms = np.linalg.norm(self.means, axis=-1) * np.linalg.norm(vectors, axis=-1)[:, None]
        return self._best(products / np.where(norms > 0, norms, 1))

    def nearest_by_mahalanobis(
        self, vectors: np.ndarray, whitenings: Sequence[Whitening]
    ) -> list[str]:
        """Returns for each layer the sense with the smallest Mahalanobis distance.

        Args:
            vectors: float (layer, feature).
            whitenings: one per layer.
        """
        distances = [
            np.mean(((means - vector) @ whiten.matrix) ** 2, axis=-1)
            for means, vector, whiten in zip(self.means, vectors, whitenings, strict=True)
        ]
        return self._best(-np.stack(distances))

    def _best(self, scores: np.ndarray) -> list[str]:
        """Returns for each row of (layer, sense) the first key with the maximum score."""
        best = scores.max(axis=1, keepdims=True)
        return [self.keys[place] for place in (scores >= best - _TOLERANCE).argmax(axis=1)]


class OccurrenceMoments:
    """Means and covariances of the vectors of occurrences, separately for each layer.

    Args:
        num_layers, dim: ints.
    """

    def __init__(self, num_layers: int, dim: int):
        self._moments = [Moments(dim) for _ in range(num_layers)]

    def update(self, occurrences: OccurrenceVectors) -> Iterator[tuple[Occurrence, np.ndarray]]:
        """Adds the vectors of occurrences, and yields both unchanged."""
        occurrences = iter(occurrences)
        while part := list(itertools.islice(occurrences, _OCCURRENCES_PER_UPDATE)):
            vectors = np.stack([vectors for _, vectors in part], axis=1)
            for moments, layer_vectors in zip(self._moments, vectors, strict=True):
                moments.add(layer_vectors)  # (occurrence, feature)
            yield from part

    def whitenings(self) -> list[Whitening]:
        """Returns one whitening per layer, or an empty list without occurrences.

        The correlations are shrunk by `dim / (dim + occurrences)`: if there are as many occurrences
        as features, the measured correlations have half of the weight.
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
    """Averages the vectors of the occurrences of each sense, for each lemma.

    An occurrence with several gold keys counts for each of them. Memory holds one sum per sense.

    Args:
        occurrences: with their vectors, float (layer, feature).
        inventory: its order resolves ties of frequency; senses that it lacks come last.
    """
    sums: dict[LemmaPos, dict[str, np.ndarray]] = {}
    counts: dict[LemmaPos, Counter[str]] = {}
    for occurrence, vectors in occurrences:
        lemma_sums = sums.setdefault(occurrence.lemma_pos, {})
        counts.setdefault(occurrence.lemma_pos, Counter()).update(occurrence.senses)
        for sense in occurrence.senses:
            if sense in lemma_sums:
                lemma_sums[sense] += vectors
            else:
                lemma_sums[sense] = vectors.copy()
    return {
        # `pop` frees the sums of a lemma as soon as its means are known.
        lemma_pos: _lemma_senses(sums.pop(lemma_pos), numbers, inventory.senses(*lemma_pos))
        for lemma_pos, numbers in counts.items()
    }


def _lemma_senses(
    sums: Mapping[str, np.ndarray], counts: Mapping[str, int], order: Sequence[str]
) -> LemmaSenses:
    rank = {sense: number for number, sense in enumerate(order)}
    keys = sorted(sums, key=lambda sense: (-counts[sense], rank.get(sense, len(rank))))
    numbers = np.array([counts[sense] for sense in keys], np.float32)
    means = np.stack([sums[sense] for sense in keys], axis=1)  # (layer, sense, feature)
    return LemmaSenses(keys, means / numbers[:, None])
