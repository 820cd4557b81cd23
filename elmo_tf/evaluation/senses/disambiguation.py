"""Embedder + text with senses ─► the nearest sense of each occurrence, and whether it is right."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.senses.inventory import SenseInventory
from elmo_tf.evaluation.senses.reports import (
    FIRST_SENSE,
    HELD_OUT,
    MAHALANOBIS,
    MOST_FREQUENT,
    SenseResults,
    SensesReport,
)
from elmo_tf.evaluation.senses.sense_corpus import LemmaPos, SenseCorpus, SenseSentence
from elmo_tf.evaluation.senses.sense_vectors import (
    LemmaSenses,
    OccurrenceMoments,
    mean_sense_vectors,
    occurrence_vectors,
)
from elmo_tf.evaluation.senses.training_texts import TrainingTexts
from elmo_tf.evaluation.whitening import Whitening
from elmo_tf.progress import progress_over


def evaluate_senses(
    embedder: Embedder,
    train: Sequence[SenseCorpus],
    tests: Sequence[SenseCorpus],
    inventory: SenseInventory,
    held_out: float = 0.0,
) -> SensesReport:
    """Disambiguates words by the nearest mean vector of a sense in training text.

    `sense(w) = argmax_s cos(h(w), mean_{occurrences of s} h)`, in each layer by itself, over the
    senses that the lemma of w has in the training text with the same part of speech. If it has
    none, the first sense of the inventory is answered; if that has none either, nothing. The same
    by the least Mahalanobis distance, for which the covariance is that of the training occurrences:
    a few directions of large variance, which a cosine mostly sees, then count like all others.

    The senses that occur in training need not be in the inventory. The paper does not say how near
    is measured; here it is by the cosine.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train: corpora to train on. They are read in passes; memory is needed for the mean vectors
            of the senses of the lemmas that are tested.
        tests: corpora to test on, held in memory.
        inventory: the `SenseInventory`.
        held_out: share of the training occurrences, from 0 to below 1, whose texts (the last) are
            tested on too, and not trained on.

    Raises:
        ValueError: `embedder` gives no layers, there is nothing to train or to test on, one file
            twice, two tests of one name, or an argument out of its range; and see `SenseCorpus`.

    Source: Peters et al. 2018, section 5.3; Melamud et al. 2016.
    """
    if embedder.layers != "all":
        raise ValueError(
            f'`embedder` must give all layers (layers="all"). Received: {embedder.layers!r}'
        )
    _check_corpora(train, tests, held_out)
    texts = TrainingTexts(train, held_out)
    sets = {corpus.name: list(corpus) for corpus in tests}
    if held_out:
        sets[HELD_OUT] = list(texts.held_out())
        _check_ids(sets[HELD_OUT])
    lemmas = {
        occurrence.lemma_pos
        for sentences in sets.values()
        for sentence in sentences
        for occurrence in sentence.occurrences
    }
    training = progress_over(texts.training(), texts.num_sentences, "training", "sentences")
    moments = OccurrenceMoments(embedder.bilm.config.lstm.num_layers + 1, embedder.dim)
    occurrences = moments.of(occurrence_vectors(embedder, training, lemmas))
    senses = mean_sense_vectors(occurrences, inventory)
    trained = embedder, senses, moments.whitenings(), inventory
    return SensesReport(
        texts.num_sentences,
        texts.num_occurrences,
        [_results(name, sets[name], *trained) for name in sets],
    )


def _results(
    name: str,
    sentences: Sequence[SenseSentence],
    embedder: Embedder,
    senses: Mapping[LemmaPos, LemmaSenses],
    whitenings: Sequence[Whitening],
    inventory: SenseInventory,
) -> SenseResults:
    layers = [f"layer_{layer}" for layer in range(embedder.bilm.config.lstm.num_layers + 1)]
    by_distance = [f"{layer}_{MAHALANOBIS}" for layer in layers]
    methods = [FIRST_SENSE, MOST_FREQUENT, *layers, *by_distance]
    results = SenseResults(name, [], {method: {} for method in methods}, set())
    shown = progress_over(sentences, len(sentences), f"testing on {name}", "sentences")
    lemmas = {one.lemma_pos for sentence in sentences for one in sentence.occurrences}
    for occurrence, vectors in occurrence_vectors(embedder, shown, lemmas):
        results.occurrences.append(occurrence)
        first = inventory.first_sense(*occurrence.lemma_pos)
        known = senses.get(occurrence.lemma_pos)
        given = [first] * len(methods)
        if known:
            results.trained.add(occurrence.id)
            given = [
                *(first, known.keys[0], *known.nearest_by_cosine(vectors)),
                *known.nearest_by_mahalanobis(vectors, whitenings),
            ]
        for method, sense in zip(methods, given, strict=True):
            results.answers[method][occurrence.id] = () if sense is None else (sense,)
    return results


def _check_corpora(
    train: Sequence[SenseCorpus], tests: Sequence[SenseCorpus], held_out: float
) -> None:
    if not train:
        raise ValueError("There is no corpus to train on.")
    if not tests and not held_out:
        raise ValueError("There is nothing to test on: name a test set, or hold out a share.")
    paths = Counter(os.path.realpath(corpus.path) for corpus in (*train, *tests))
    twice = next((path for path, count in paths.items() if count > 1), None)
    if twice:
        raise ValueError(f"{twice} is named twice among the corpora to train and to test on.")
    names = Counter([corpus.name for corpus in tests] + [HELD_OUT] * bool(held_out))
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice:
        raise ValueError(f"Two test sets are called {twice!r}, after their files. Rename one.")


def _check_ids(sentences: Iterable[SenseSentence]) -> None:
    """Each corpus has ids of its own, but texts of several may be held out."""
    ids = Counter(one.id for sentence in sentences for one in sentence.occurrences)
    twice = next((occurrence for occurrence, count in ids.items() if count > 1), None)
    if twice:
        raise ValueError(
            f"Two corpora to train on have an instance {twice!r}, and both would be held out. "
            "Train on one of them, or give the instances other ids."
        )
