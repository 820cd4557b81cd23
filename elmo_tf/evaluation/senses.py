"""Word sense disambiguation by the nearest sense vector in each layer."""

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.sense_corpus import (
    LemmaPos,
    SenseCorpus,
    SenseInstance,
    SenseInventory,
    SenseSentence,
)
from elmo_tf.evaluation.sense_scores import FIRST_SENSE, HELD_OUT, SenseResults, SensesReport
from elmo_tf.evaluation.stored_vectors import unit_vectors
from elmo_tf.evaluation.whitening import Whitening
from elmo_tf.progress import progress_over

# In layer 0 a token has the same vector in every sentence, so that means of different senses may
# differ only by rounding errors.
_TOLERANCE = 1e-6
_VECTORS_PER_UPDATE = 1024


def evaluate_senses(
    embedder: Embedder,
    train: Sequence[SenseCorpus],
    tests: Sequence[SenseCorpus],
    inventory: SenseInventory,
    held_out: float = 0.0,
) -> SensesReport:
    """Disambiguates words by the nearest mean vector of a sense in the training data.

    `sense(w) = argmax_s cos(h(w), mean_{instances of s} h)`, separately for each layer, over the
    senses that w's lemma and part of speech have in the training data. If there are none, the
    answer is the first sense of the inventory; if the inventory lacks the lemma, there is no
    answer. A second method takes the smallest Mahalanobis distance, with the covariance of the
    training instances: unlike the cosine, it is not dominated by a few directions of large
    variance.

    Senses of the training data need not be in the inventory. The paper does not name its measure;
    the cosine is our choice.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train: training corpora, which are streamed; memory holds the mean vectors of the senses of
            the tested lemmas.
        tests: test corpora, held in memory.
        inventory: a `SenseInventory`.
        held_out: 0 to below 1, the share of the training instances whose texts (the last ones) are
            tested on instead of trained on. Texts are not split.

    Raises:
        ValueError: `embedder` does not return all layers, there is nothing to train or test on, a
            file is given twice, two test sets have the same name, or `held_out` is out of range;
            see also `SenseCorpus`.

    Source: Peters et al. 2018, section 5.3; Melamud et al. 2016.
    """
    check_all_layers(embedder)
    if not train:
        raise ValueError("There is no corpus to train on.")
    if not tests and not held_out:
        raise ValueError("There is nothing to test on: name a test set, or hold out a share.")
    if path := _repeated(os.path.realpath(corpus.path) for corpus in (*train, *tests)):
        raise ValueError(f"{path} is given twice among the training and test corpora.")
    if name := _repeated([corpus.name for corpus in tests] + [HELD_OUT] * bool(held_out)):
        raise ValueError(f"Two test sets are named {name!r}, after their files. Rename one.")
    texts, *size = held_out_texts(train, held_out)
    sets = {corpus.name: list(corpus) for corpus in tests}
    if held_out:
        sets[HELD_OUT] = [sentence for text, sentence in _sentences(train) if text in texts]
        if name := _repeated(one.id for sentence in sets[HELD_OUT] for one in sentence.instances):
            raise ValueError(
                f"Two training corpora have an instance {name!r}, and both would be held out. "
                "Train on one of them, or rename the instances."
            )
    lemmas = set().union(*map(_lemmas, sets.values()))
    training = (sentence for text, sentence in _sentences(train) if text not in texts)
    shown = progress_over(training, size[0], "training", "sentences")
    whitenings = [Whitening(embedder.dim) for _ in range(embedder.num_layers)]
    vectors = _counted(instance_vectors(embedder, shown, lemmas), whitenings)
    senses = mean_sense_vectors(vectors, inventory)
    # Shrunk: with as many instances as features, the measured correlations have half the weight.
    for whitening in whitenings if senses else ():
        whitening.fit(embedder.dim / (embedder.dim + whitening.count))
    results = [
        _results(name, sentences, embedder, senses, whitenings, inventory)
        for name, sentences in sets.items()
    ]
    return SensesReport(*size, results)


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _lemmas(sentences: Iterable[SenseSentence]) -> set[LemmaPos]:
    return {one.lemma_pos for sentence in sentences for one in sentence.instances}


def _sentences(corpora: Sequence[SenseCorpus]) -> Iterator[tuple[tuple[int, int], SenseSentence]]:
    """Yields the sentences of corpora, with the indices of the corpus and of the text in it."""
    for index, corpus in enumerate(corpora):
        for sentence in corpus:
            yield (index, sentence.text), sentence


def held_out_texts(
    corpora: Sequence[SenseCorpus], share: float
) -> tuple[set[tuple[int, int]], int, int]:
    """Finds the fewest last texts that have at least a share of the instances.

    All corpora are read, so that errors in them are found early.

    Returns:
        These texts, and the numbers of sentences and of instances in the others.

    Raises:
        ValueError: the share is not from 0 to below 1, or leaves no text to train on.
    """
    if not 0 <= share < 1:
        raise ValueError(f"`held_out` must be from 0 to below 1. Received: {share!r}")
    sentences: Counter[tuple[int, int]] = Counter()
    instances: Counter[tuple[int, int]] = Counter()
    for text, sentence in _sentences(corpora):
        sentences[text] += 1
        instances[text] += len(sentence.instances)
    last_first = list(instances)[::-1]
    sizes = np.cumsum([instances[text] for text in last_first])
    count = np.searchsorted(sizes, share * instances.total()) + 1 if share else 0
    held_out = set(last_first[:count])
    if held_out == instances.keys():
        raise ValueError(
            f"Holding out {share:g} of the instances would leave no text to train on: there are "
            f"{len(held_out)} texts. Hold out less, or train on more texts."
        )
    left = [
        sum(counts[text] for text in counts.keys() - held_out) for counts in (sentences, instances)
    ]
    return held_out, *left


def instance_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[SenseInstance, np.ndarray]]:
    """Yields the instances of some lemmas, with the means of their tokens' vectors.

    Sentences without such an instance are not embedded.

    Yields:
        Each instance, and float32 (layer, feature).

    Raises:
        ValueError: a vector is not finite.
    """
    embedded, needed = itertools.tee(
        (sentence.tokens, instances)
        for sentence in sentences
        if (instances := [one for one in sentence.instances if one.lemma_pos in lemmas])
    )
    arrays = embedder.embed(tokens for tokens, _ in embedded)
    for array, (_, instances) in zip(arrays, needed, strict=True):
        for one in instances:
            vectors = array[:, one.first : one.end].mean(axis=1)
            if not np.isfinite(vectors).all():
                raise ValueError(
                    f"Vectors of {one.id!r} are not finite (NaN or infinity): the model's "
                    "weights are damaged or far too large."
                )
            yield one, vectors


def _counted(
    instances: Iterator[tuple[SenseInstance, np.ndarray]], whitenings: Sequence[Whitening]
) -> Iterator[tuple[SenseInstance, np.ndarray]]:
    """Yields instances and vectors unchanged; adds the vectors to the whitening of each layer."""
    while part := list(itertools.islice(instances, _VECTORS_PER_UPDATE)):
        layers = np.stack([vectors for _, vectors in part], axis=1)  # (layer, instance, feature)
        for whitening, vectors in zip(whitenings, layers, strict=True):
            whitening.add(vectors)
        yield from part


class LemmaSenses(NamedTuple):
    """The senses of a lemma in the training data.

    Attributes:
        keys: of the senses, the most frequent first.
        means: float32 (layer, sense, feature). Mean vectors of the senses.
    """

    keys: list[str]
    means: np.ndarray

    def nearest(self, vectors: np.ndarray, whitenings: Sequence[Whitening]) -> list[str]:
        """Returns the sense with the largest cosine, and with the smallest Mahalanobis distance.

        If several senses are equally near, it is the most frequent one.

        Args:
            vectors: float32 (layer, feature).
            whitenings: one per layer.

        Returns:
            The senses by cosine in each layer, then those by Mahalanobis distance.
        """
        cosines = np.einsum("lsf,lf->ls", unit_vectors(self.means), unit_vectors(vectors))
        distances = [
            np.mean(((means - vector) @ whiten.matrix) ** 2, axis=-1)
            for means, vector, whiten in zip(self.means, vectors, whitenings, strict=True)
        ]
        nearness = np.concatenate([cosines, -np.stack(distances)])  # (2 · layer, sense)
        is_best = nearness >= nearness.max(axis=1, keepdims=True) - _TOLERANCE
        return [self.keys[place] for place in is_best.argmax(axis=1)]


def mean_sense_vectors(
    instances: Iterable[tuple[SenseInstance, np.ndarray]], inventory: SenseInventory
) -> dict[LemmaPos, LemmaSenses]:
    """Averages the vectors (layer, feature) of the instances of each sense, for each lemma.

    An instance with several gold keys counts for each of them. Memory holds one sum per sense. The
    order of the inventory resolves ties of frequency; senses that it lacks come last.
    """
    sums: defaultdict[LemmaPos, dict[str, np.ndarray]] = defaultdict(dict)
    counts: Counter[tuple[LemmaPos, str]] = Counter()
    for one, vectors in instances:
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


def _results(
    name: str,
    sentences: Sequence[SenseSentence],
    embedder: Embedder,
    senses: Mapping[LemmaPos, LemmaSenses],
    whitenings: Sequence[Whitening],
    inventory: SenseInventory,
) -> SenseResults:
    layers = [f"layer_{layer}" for layer in range(embedder.num_layers)]
    methods = [FIRST_SENSE, "most_frequent", *layers, *(f"{one}_mahalanobis" for one in layers)]
    results = SenseResults(name, [], {method: {} for method in methods}, set())
    shown = progress_over(sentences, len(sentences), f"testing on {name}", "sentences")
    for one, vectors in instance_vectors(embedder, shown, _lemmas(sentences)):
        results.instances.append(one)
        first = inventory.first_sense(*one.lemma_pos)
        answers = [first] * len(methods)
        if known := senses.get(one.lemma_pos):
            results.trained.add(one.id)
            answers[1:] = known.keys[0], *known.nearest(vectors, whitenings)
        for method, sense in zip(methods, answers, strict=True):
            results.answers[method][one.id] = () if sense is None else (sense,)
    return results
