"""Word sense disambiguation by the nearest sense vector in each layer, and its scores."""

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.sense_corpus import (
    POS_OF_TAG,
    LemmaPos,
    SenseCorpus,
    SenseInstance,
    SenseInventory,
    SenseSentence,
    held_out_texts,
    numbered_sentences,
)
from elmo_tf.evaluation.sense_vectors import (
    NearestSenses,
    in_parts,
    instance_vectors,
    mean_sense_vectors,
    with_instances,
)
from elmo_tf.evaluation.whitening import Whitening
from elmo_tf.progress import progress_over

FIRST_SENSE, HELD_OUT = "first_sense", "held_out"

Keys = Mapping[str, Collection[str]]
Scores = Mapping[str, Mapping[str, "SenseScore"]]


class SenseScore(NamedTuple):
    """Counts of correct answers; scores can be added.

    Attributes:
        correct: float. Each instance counts with the share of its answers that are gold keys.
        answered: number of instances with an answer.
        instances: number of all instances.
    """

    correct: float = 0.0
    answered: int = 0
    instances: int = 0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(*map(sum, zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        """`correct / answered`, 0 without answers."""
        return self.correct / max(self.answered, 1)

    @property
    def recall(self) -> float:
        """`correct / instances`, 0 without instances."""
        return self.correct / max(self.instances, 1)

    @property
    def f1(self) -> float:
        """`2 · precision · recall / (precision + recall)`, 0 if both are 0."""
        return 2 * self.correct / max(self.answered + self.instances, 1)

    def to_json(self) -> dict[str, Any] | None:
        """Returns precision, recall, F1 and the number of instances, None without instances."""
        names = ("precision", "recall", "f1", "instances")
        return {name: getattr(self, name) for name in names} if self.instances else None


def sense_scores(gold: Keys, answers: Keys, pos: Mapping[str, str]) -> dict[str, SenseScore]:
    """Scores answers against gold keys, of all instances and of each part of speech.

    A repeated answer counts once. A missing answer lowers only recall.

    Args:
        gold: the gold keys of each instance, by id.
        answers: the answered keys of each instance, by id. Those without gold keys are ignored.
        pos: the part of speech of each instance ("noun", "verb", "adj" or "adv"), by id.

    Returns:
        "all", and the parts of speech in this order.

    Source: Raganato et al. 2017, and the framework's `Scorer`.
    """
    scores = dict.fromkeys(("all", *POS_OF_TAG.values()), SenseScore())
    for name, keys in gold.items():
        given = set(answers.get(name, ()))
        correct = len(given.intersection(keys)) / max(len(given), 1)
        for part in ("all", pos[name]):
            scores[part] += SenseScore(correct, bool(given), 1)
    return scores


@dataclasses.dataclass(frozen=True)
class SenseResults:
    """The answers on one test set.

    Attributes:
        name: of the test set.
        instances: those with gold keys.
        answers: for each method the answered sense keys by instance id, an empty tuple without an
            answer. The methods are "first_sense", "most_frequent" (the most frequent sense of the
            training data), "layer_0" and so on (by cosine), and "layer_0_mahalanobis" and so on;
            for lemmas without training data all of them answer the first sense.
        trained: ids of the instances whose lemma has training data.
    """

    name: str
    instances: list[SenseInstance] = dataclasses.field(repr=False)
    answers: dict[str, dict[str, tuple[str, ...]]] = dataclasses.field(repr=False)
    trained: set[str] = dataclasses.field(repr=False)

    @property
    def scores(self) -> Scores:
        """For each method the scores of "all" and of each part of speech."""
        gold = {one.id: one.senses for one in self.instances}
        pos = {one.id: one.pos for one in self.instances}
        return {method: sense_scores(gold, given, pos) for method, given in self.answers.items()}

    @property
    def trained_scores(self) -> Scores:
        """The scores of the instances whose lemma has training data."""
        instances = [one for one in self.instances if one.id in self.trained]
        return dataclasses.replace(self, instances=instances).scores

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-serializable dictionary of counts and scores."""
        untrained = [one.id for one in self.instances if one.id not in self.trained]
        return {
            "instances": len(self.instances),
            "fell_back": len(untrained),
            "unanswered": sum(not self.answers[FIRST_SENSE][name] for name in untrained),
            "scores": _numbers(self.scores),
            "scores_where_trained": _numbers(self.trained_scores),
        }


@dataclasses.dataclass(frozen=True)
class SensesReport:
    """The result of `evaluate_senses`.

    Attributes:
        num_sentences, num_instances: size of the training data.
        results: one per test set; that of the held-out texts comes last and is named "held_out".
    """

    num_sentences: int
    num_instances: int
    results: list[SenseResults]

    def together(self) -> Scores | None:
        """Returns the scores over all instances of all test sets but the held-out one.

        None if there are fewer than two such test sets.
        """
        scores = [results.scores for results in self.results if results.name != HELD_OUT]
        if len(scores) < 2:
            return None
        return {
            method: {part: sum((one[method][part] for one in scores), SenseScore()) for part in row}
            for method, row in scores[0].items()
        }

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-serializable dictionary."""
        together = self.together()
        return {
            "trained_on": {"sentences": self.num_sentences, "instances": self.num_instances},
            "results": {results.name: results.to_json() for results in self.results},
            **({"together": {"scores": _numbers(together)}} if together else {}),
        }


def _numbers(scores: Scores) -> dict[str, Any]:
    return {
        method: {part: score.to_json() for part, score in row.items()}
        for method, row in scores.items()
    }


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
    return SenseTexts(train, tests, held_out).evaluate(embedder, inventory)


class SenseTexts:
    """The texts of `evaluate_senses`, read and checked once, for several models.

    Args:
        train, tests, held_out: see `evaluate_senses`.

    Raises:
        ValueError: see `evaluate_senses`.
    """

    def __init__(
        self, train: Sequence[SenseCorpus], tests: Sequence[SenseCorpus], held_out: float = 0.0
    ):
        if not train:
            raise ValueError("There is no corpus to train on.")
        if not tests and not held_out:
            raise ValueError("There is nothing to test on: name a test set, or hold out a share.")
        if path := _repeated(os.path.realpath(corpus.path) for corpus in (*train, *tests)):
            raise ValueError(f"{path} is given twice among the training and test corpora.")
        if name := _repeated([corpus.name for corpus in tests] + [HELD_OUT] * bool(held_out)):
            raise ValueError(f"Two test sets are named {name!r}, after their files. Rename one.")
        self._train = train
        self._held_out, *self._size = held_out_texts(train, held_out)
        self._sets = {corpus.name: list(corpus) for corpus in tests}
        if held_out:
            held = [one for text, one in numbered_sentences(train) if text in self._held_out]
            if name := _repeated(one.id for sentence in held for one in sentence.instances):
                raise ValueError(
                    f"Two training corpora have an instance {name!r}, and both would be held out. "
                    "Train on one of them, or rename the instances."
                )
            self._sets[HELD_OUT] = held
        self._lemmas = set().union(*map(_lemmas, self._sets.values()))

    def embedded(self) -> Iterator[list[str]]:
        """Yields the tokens of all sentences that `evaluate` embeds."""
        sentences = itertools.chain(self._training(), *self._sets.values())
        return (tokens for tokens, _ in with_instances(sentences, self._lemmas))

    def evaluate(self, embedder: Embedder, inventory: SenseInventory) -> SensesReport:
        """The result of `evaluate_senses`."""
        shown = progress_over(self._training(), self._size[0], "training", "sentences")
        whitenings = [Whitening(embedder.dim) for _ in range(embedder.num_layers)]
        vectors = instance_vectors(embedder, shown, self._lemmas)
        senses = mean_sense_vectors(vectors, inventory, whitenings)
        # Shrunk: with as many instances as features, the measured correlations have half the
        # weight.
        for whitening in whitenings if senses else ():
            whitening.fit(embedder.dim / (embedder.dim + whitening.count))
        nearest = NearestSenses(senses, whitenings)
        del senses  # frees the means
        sets = self._sets.items()
        return SensesReport(
            *self._size, [_results(*one, embedder, nearest, inventory) for one in sets]
        )

    def _training(self) -> Iterator[SenseSentence]:
        return (one for text, one in numbered_sentences(self._train) if text not in self._held_out)


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _lemmas(sentences: Iterable[SenseSentence]) -> set[LemmaPos]:
    return {one.lemma_pos for sentence in sentences for one in sentence.instances}


def _results(
    name: str,
    sentences: Sequence[SenseSentence],
    embedder: Embedder,
    nearest: NearestSenses,
    inventory: SenseInventory,
) -> SenseResults:
    layers = [f"layer_{layer}" for layer in range(embedder.num_layers)]
    methods = [FIRST_SENSE, "most_frequent", *layers, *(f"{one}_mahalanobis" for one in layers)]
    results = SenseResults(name, [], {method: {} for method in methods}, set())
    shown = progress_over(sentences, len(sentences), f"testing on {name}", "sentences")
    for part, vectors in in_parts(instance_vectors(embedder, shown, _lemmas(sentences))):
        senses = nearest((one.lemma_pos for one, _ in part), vectors)
        for (one, _), known in zip(part, senses, strict=True):
            results.instances.append(one)
            first = inventory.first_sense(*one.lemma_pos)
            if known:
                results.trained.add(one.id)
            answers = first, *(known or [first] * (len(methods) - 1))
            for method, sense in zip(methods, answers, strict=True):
                results.answers[method][one.id] = () if sense is None else (sense,)
    return results
