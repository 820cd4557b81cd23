"""Evaluates the layers of a biLM by word sense disambiguation."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.senses.inventory import SenseInventory
from elmo_tf.evaluation.senses.scoring import (
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
from elmo_tf.evaluation.whitening import Whitening
from elmo_tf.progress import progress_over

_TextId = tuple[int, int]  # numbers of the corpus, and of the text in it


def evaluate_senses(
    embedder: Embedder,
    train: Sequence[SenseCorpus],
    tests: Sequence[SenseCorpus],
    inventory: SenseInventory,
    held_out: float = 0.0,
) -> SensesReport:
    """Disambiguates words by the nearest mean vector of a sense in the training data.

    `sense(w) = argmax_s cos(h(w), mean_{occurrences of s} h)`, separately for each layer, over the
    senses that w's lemma and part of speech have in the training data. If there are none, the
    answer is the first sense of the inventory; if the inventory lacks the lemma, there is no
    answer. A second method takes the smallest Mahalanobis distance, with the covariance of the
    training occurrences: unlike the cosine, it is not dominated by a few directions of large
    variance.

    Senses of the training data need not be in the inventory. The paper does not name its measure;
    the cosine is our choice.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        train: training corpora, which are streamed; memory holds the mean vectors of the senses of
            the tested lemmas.
        tests: test corpora, held in memory.
        inventory: a `SenseInventory`.
        held_out: 0 to below 1, the share of the training occurrences whose texts (the last ones)
            are tested on instead of trained on.

    Raises:
        ValueError: `embedder` does not return all layers, there is nothing to train or test on, a
            file is given twice, two test sets have the same name, or `held_out` is out of range;
            see also `SenseCorpus`.

    Source: Peters et al. 2018, section 5.3; Melamud et al. 2016.
    """
    check_all_layers(embedder)
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
    moments = OccurrenceMoments(embedder.num_layers, embedder.dim)
    occurrences = moments.update(occurrence_vectors(embedder, training, lemmas))
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
    layers = [f"layer_{layer}" for layer in range(embedder.num_layers)]
    by_distance = [f"{layer}_{MAHALANOBIS}" for layer in layers]
    methods = [FIRST_SENSE, MOST_FREQUENT, *layers, *by_distance]
    results = SenseResults(name, [], {method: {} for method in methods}, set())
    shown = progress_over(sentences, len(sentences), f"testing on {name}", "sentences")
    lemmas = {one.lemma_pos for sentence in sentences for one in sentence.occurrences}
    for occurrence, vectors in occurrence_vectors(embedder, shown, lemmas):
        results.occurrences.append(occurrence)
        first = inventory.first_sense(*occurrence.lemma_pos)
        known = senses.get(occurrence.lemma_pos)
        answers = [first] * len(methods)
        if known:
            results.trained.add(occurrence.id)
            answers = [
                *(first, known.keys[0], *known.nearest_by_cosine(vectors)),
                *known.nearest_by_mahalanobis(vectors, whitenings),
            ]
        for method, sense in zip(methods, answers, strict=True):
            results.answers[method][occurrence.id] = () if sense is None else (sense,)
    return results


def _check_corpora(
    train: Sequence[SenseCorpus], tests: Sequence[SenseCorpus], held_out: float
) -> None:
    if not train:
        raise ValueError("There is no corpus to train on.")
    if not tests and not held_out:
        raise ValueError("There is nothing to test on: name a test set, or hold out a share.")
    path = _repeated(os.path.realpath(corpus.path) for corpus in (*train, *tests))
    if path:
        raise ValueError(f"{path} is given twice among the training and test corpora.")
    name = _repeated([corpus.name for corpus in tests] + [HELD_OUT] * bool(held_out))
    if name:
        raise ValueError(f"Two test sets are named {name!r}, after their files. Rename one.")


def _check_ids(sentences: Iterable[SenseSentence]) -> None:
    """Checks that ids are unique across the corpora from which texts are held out."""
    name = _repeated(one.id for sentence in sentences for one in sentence.occurrences)
    if name:
        raise ValueError(
            f"Two training corpora have an instance {name!r}, and both would be held out. Train on "
            "one of them, or rename the instances."
        )


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


class TrainingTexts:
    """The texts of several corpora, the last of which may be held out.

    The corpora are read once to count, so that errors in them are found early.

    Args:
        corpora: at least one.
        held_out: 0 to below 1. The fewest last texts that have at least this share of the
            occurrences are held out; texts are not split.

    Attributes:
        num_sentences, num_occurrences: of the texts to train on.

    Raises:
        ValueError: `held_out` is out of range, or leaves no text to train on; see also
            `SenseCorpus`.
    """

    def __init__(self, corpora: Sequence[SenseCorpus], held_out: float = 0.0):
        if not 0 <= held_out < 1:
            raise ValueError(f"`held_out` must be from 0 to below 1. Received: {held_out!r}")
        self._corpora = list(corpora)
        sentences: Counter[_TextId] = Counter()
        occurrences: Counter[_TextId] = Counter()
        for text, sentence in self._sentences():
            sentences[text] += 1
            occurrences[text] += len(sentence.occurrences)
        self._held_out: set[_TextId] = set()
        missing = held_out * occurrences.total()
        for text in reversed(occurrences):
            if missing <= 0:
                break
            self._held_out.add(text)
            missing -= occurrences[text]
        trained = sentences.keys() - self._held_out
        if self._held_out and not trained:
            raise ValueError(
                f"Holding out {held_out:g} of the occurrences would leave no text to train on: "
                f"there are {len(sentences)} texts. Hold out less, or train on more texts."
            )
        self.num_sentences = sum(sentences[text] for text in trained)
        self.num_occurrences = sum(occurrences[text] for text in trained)

    def training(self) -> Iterator[SenseSentence]:
        """Yields the sentences to train on."""
        return (sentence for text, sentence in self._sentences() if text not in self._held_out)

    def held_out(self) -> Iterator[SenseSentence]:
        """Yields the held-out sentences."""
        return (sentence for text, sentence in self._sentences() if text in self._held_out)

    def _sentences(self) -> Iterator[tuple[_TextId, SenseSentence]]:
        for number, corpus in enumerate(self._corpora):
            for sentence in corpus:
                yield (number, sentence.text), sentence
