"""Sentences with senses ─► for each sense the mean vector of its occurrences, in every layer."""

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.senses.inventory import SenseInventory
from elmo_tf.evaluation.senses.sense_corpus import LemmaPos, Occurrence, SenseSentence

# Layer 0 gives a token the same vector in every sentence, so that means of different senses may
# differ by rounding alone.
_ROUNDING = 1e-6

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

    keys: of the senses, the most frequent first.
    directions: float32 (layer, sense, feature). The mean vectors, scaled to length 1.
    """

    keys: list[str]
    directions: np.ndarray

    def nearest(self, vectors: np.ndarray) -> list[str]:
        """In each layer the sense whose mean vector has the largest cosine similarity.

        Of senses that are equally near, it is the more frequent one.

        Args:
            vectors: float (layer, feature).
        """
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        own = vectors / np.where(norms > 0, norms, 1)
        similarities = np.einsum("lsf,lf->ls", self.directions, own)
        best = similarities.max(axis=1, keepdims=True)
        places = (similarities >= best - _ROUNDING).argmax(axis=1)  # the first of the best
        return [self.keys[place] for place in places]


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
        # A lemma's sums are let go as soon as its directions are known.
        lemma_pos: _lemma_senses(sums.pop(lemma_pos), numbers, inventory.senses(*lemma_pos))
        for lemma_pos, numbers in counts.items()
    }


def _lemma_senses(
    sums: dict[str, np.ndarray], counts: dict[str, int], order: list[str]
) -> LemmaSenses:
    rank = {sense: number for number, sense in enumerate(order)}
    keys = sorted(sums, key=lambda sense: (-counts[sense], rank.get(sense, len(rank))))
    directions = np.stack([sums[sense] for sense in keys], axis=1)  # (layer, sense, feature)
    # A mean has the direction of the sum.
    norms = np.linalg.norm(directions, axis=-1, keepdims=True)
    return LemmaSenses(keys, directions / np.where(norms > 0, norms, 1))
