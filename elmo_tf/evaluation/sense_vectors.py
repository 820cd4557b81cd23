"""Vectors of annotated words ─► mean vectors of senses, and the nearest of them."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.evaluation.sense_corpus import (
    LemmaPos,
    SenseInstance,
    SenseInventory,
    SenseSentence,
)
from elmo_tf.evaluation.whitening import Whitening

# In layer 0 a token has the same vector in every sentence, so that means of different senses may
# differ only by rounding errors.
_TOLERANCE = 1e-6
_INSTANCES_PER_PART = 1024

InstanceVectors = tuple[SenseInstance, np.ndarray]  # the vectors are (layer, feature)


def with_instances(
    sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[list[str], list[SenseInstance]]]:
    """Yields the tokens and the instances of the sentences with instances of some lemmas."""
    for sentence in sentences:
        if instances := [one for one in sentence.instances if one.lemma_pos in lemmas]:
            yield sentence.tokens, instances


def instance_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[InstanceVectors]:
    """Yields the instances of some lemmas, with the mean vectors of their tokens.

    Sentences without such an instance are not embedded. Vectors that are not finite are an error.
    """
    embedded, needed = itertools.tee(with_instances(sentences, lemmas))
    arrays = embedder.embed(tokens for tokens, _ in embedded)
    for array, (_, instances) in zip(arrays, needed, strict=True):
        for one in instances:
            vectors = array[:, one.first : one.end].mean(axis=1)  # (layer, feature)
            if not np.isfinite(vectors).all():
                raise ValueError(
                    f"Vectors of {one.id!r} are not finite (NaN or infinity): the model's "
                    "weights are damaged or far too large."
                )
            yield one, vectors


def in_parts(
    instances: Iterator[InstanceVectors],
) -> Iterator[tuple[list[InstanceVectors], np.ndarray]]:
    """Yields several instances at a time, and their vectors as (layer, instance, feature)."""
    while part := list(itertools.islice(instances, _INSTANCES_PER_PART)):
        yield part, np.stack([vectors for _, vectors in part], axis=1)


class LemmaSenses(NamedTuple):
    """The senses of a lemma in the training data, the most frequent first."""

    keys: list[str]
    means: np.ndarray  # float32 (layer, sense, feature), the mean vectors of the senses


class NearestSenses:
    """Finds the nearest senses by cosine and by Mahalanobis distance.

    The distance is that of whitened vectors. The means are whitened once, and the vectors of many
    instances together.

    Args:
        senses: by lemma.
        whitenings: one per layer, fitted if there are senses.
    """

    def __init__(self, senses: Mapping[LemmaPos, LemmaSenses], whitenings: Sequence[Whitening]):
        ends = itertools.accumulate(len(one.keys) for one in senses.values())
        self._senses = {
            lemma: (one.keys, slice(end - len(one.keys), end))
            for (lemma, one), end in zip(senses.items(), ends, strict=True)
        }
        self._layers = []  # of all senses: (sense, feature), (sense, direction)
        for layer, whiten in enumerate(whitenings if senses else ()):
            means = np.concatenate([one.means[layer] for one in senses.values()])
            self._layers.append((whiten, unit_vectors(means), whiten(means)))

    def __call__(self, lemmas: Iterable[LemmaPos], vectors: np.ndarray) -> Iterator[list[str]]:
        """Yields the senses of instances, float32 (layer, instance, feature), of some lemmas.

        For each instance: the most frequent sense of its lemma, the nearest by cosine in each
        layer, then by Mahalanobis distance. If several are equally near, it is the most frequent
        one. An empty list for a lemma without senses.
        """
        layers = [
            (units, unit_vectors(vectors[layer]), whitened, whiten(vectors[layer]))
            for layer, (whiten, units, whitened) in enumerate(self._layers)
        ]
        for row, lemma in enumerate(lemmas):
            if lemma not in self._senses:
                yield []
                continue
            keys, place = self._senses[lemma]
            cosines = [units[place] @ own[row] for units, own, _, _ in layers]
            distances = [np.mean((w[place] - own[row]) ** 2, axis=-1) for _, _, w, own in layers]
            nearness = np.stack([*cosines, *(-each for each in distances)])  # (2 · layer, sense)
            is_best = nearness >= nearness.max(axis=1, keepdims=True) - _TOLERANCE
            yield [keys[0], *(keys[index] for index in is_best.argmax(axis=1))]


def mean_sense_vectors(
    instances: Iterator[InstanceVectors], inventory: SenseInventory, whitenings: Sequence[Whitening]
) -> dict[LemmaPos, LemmaSenses]:
    """Averages the vectors (layer, feature) of the instances of each sense, for each lemma.

    An instance with several gold keys counts for each of them. Memory holds one sum per sense. The
    order of the inventory resolves ties of frequency; senses that it lacks come last. All vectors
    are added to the whitening of their layer.
    """
    sums: defaultdict[LemmaPos, dict[str, np.ndarray]] = defaultdict(dict)
    counts: Counter[tuple[LemmaPos, str]] = Counter()
    for part, layers in in_parts(instances):
        for whitening, of_layer in zip(whitenings, layers, strict=True):
            whitening.add(of_layer)
        for one, vectors in part:
            of_lemma = sums[one.lemma_pos]
            for sense in one.senses:
                counts[one.lemma_pos, sense] += 1
                of_lemma[sense] = of_lemma[sense] + vectors if sense in of_lemma else vectors
    senses = {}
    for lemma in list(sums):
        of_lemma = sums.pop(lemma)  # frees the sums of a lemma as soon as its means are known
        order = [*inventory.senses(*lemma), *of_lemma]
        keys = sorted(of_lemma, key=lambda sense: (-counts[lemma, sense], order.index(sense)))
        means = [of_lemma[sense] / np.float32(counts[lemma, sense]) for sense in keys]
        senses[lemma] = LemmaSenses(keys, np.stack(means, axis=1))  # (layer, sense, feature)
    return senses
