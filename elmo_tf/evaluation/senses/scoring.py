"""Scores of word sense disambiguation: precision, recall and F1, as in Raganato et al. 2017."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from elmo_tf.evaluation.senses.inventory import POS_OF_TAG
from elmo_tf.evaluation.senses.sense_corpus import Occurrence

FIRST_SENSE, MOST_FREQUENT, MAHALANOBIS = "first_sense", "most_frequent", "mahalanobis"
HELD_OUT = "held_out"

Keys = Mapping[str, Collection[str]]


class SenseScore(NamedTuple):
    """Counts of correct answers; scores can be added.

    Attributes:
        correct: float. Each occurrence counts with the share of its answers that are gold keys.
        answered: number of occurrences with an answer.
        occurrences: number of all occurrences.
    """

    correct: float = 0.0
    answered: int = 0
    occurrences: int = 0

    @property
    def precision(self) -> float:
        """`correct / answered`, 0 without answers."""
        return self.correct / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """`correct / occurrences`, 0 without occurrences."""
        return self.correct / self.occurrences if self.occurrences else 0.0

    @property
    def f1(self) -> float:
        """`2 · precision · recall / (precision + recall)`, 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(*(mine + its for mine, its in zip(self, other, strict=True)))


Scores = Mapping[str, Mapping[str, SenseScore]]


def sense_score(gold: Keys, answers: Keys) -> SenseScore:
    """Scores answers against gold keys.

    A repeated answer counts once. A missing answer lowers only recall. Answers for occurrences
    without gold keys are ignored.

    Args:
        gold: the gold keys of each occurrence, by id.
        answers: the answered keys of each occurrence, by id.

    Source: Raganato et al. 2017, and the framework's `Scorer`.
    """
    correct, answered = 0.0, 0
    for occurrence, keys in gold.items():
        given = set(answers.get(occurrence, ()))
        if given:
            correct += len(given.intersection(keys)) / len(given)
            answered += 1
    return SenseScore(correct, answered, len(gold))


def sense_scores(gold: Keys, answers: Keys, pos: Mapping[str, str]) -> dict[str, SenseScore]:
    """Scores all occurrences, and those of each part of speech.

    Args:
        gold, answers: see `sense_score`.
        pos: the part of speech of each occurrence ("noun", "verb", "adj" or "adv"), by id.

    Returns:
        "all", and the parts of speech in this order.
    """
    scores = {"all": sense_score(gold, answers)}
    for part in POS_OF_TAG.values():
        keys = {occurrence: keys for occurrence, keys in gold.items() if pos[occurrence] == part}
        scores[part] = sense_score(keys, answers)
    return scores


@dataclass(frozen=True)
class SenseResults:
    """The answers on one test set.

    Attributes:
        name: of the test set.
        occurrences: those with gold keys.
        answers: for each method the answered sense keys by occurrence id, an empty tuple without an
            answer. The methods are "first_sense", "most_frequent" (the most frequent sense of the
            training data), "layer_0" and so on (by cosine), and "layer_0_mahalanobis" and so on;
            for lemmas without training data all of them answer the first sense.
        trained: ids of the occurrences whose lemma has training data.
    """

    name: str
    occurrences: list[Occurrence] = field(repr=False)
    answers: dict[str, dict[str, tuple[str, ...]]] = field(repr=False)
    trained: set[str] = field(repr=False)

    @cached_property
    def scores(self) -> Scores:
        """For each method the scores of "all" and of each part of speech."""
        return self._scores(self.occurrences)

    @cached_property
    def trained_scores(self) -> Scores:
        """The scores of the occurrences whose lemma has training data."""
        return self._scores([one for one in self.occurrences if one.id in self.trained])

    @property
    def fell_back(self) -> list[Occurrence]:
        """The occurrences whose lemma has no training data, so that the first sense is answered."""
        return [one for one in self.occurrences if one.id not in self.trained]

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-serializable dictionary of counts and scores."""
        first = self.answers[FIRST_SENSE]
        return {
            "instances": len(self.occurrences),
            "fell_back": len(self.fell_back),
            "unanswered": sum(not first[one.id] for one in self.fell_back),
            "scores": _numbers(self.scores),
            "scores_where_trained": _numbers(self.trained_scores),
        }

    def _scores(self, occurrences: Iterable[Occurrence]) -> Scores:
        gold = {occurrence.id: occurrence.senses for occurrence in occurrences}
        pos = {occurrence.id: occurrence.pos for occurrence in occurrences}
        return {method: sense_scores(gold, given, pos) for method, given in self.answers.items()}


@dataclass(frozen=True)
class SensesReport:
    """The result of `evaluate_senses`.

    Attributes:
        num_sentences, num_occurrences: size of the training data.
        results: one per test set; that of the held-out texts comes last and is named "held_out".
    """

    num_sentences: int
    num_occurrences: int
    results: list[SenseResults]

    def together(self) -> Scores | None:
        """Returns the scores over all occurrences of all test sets but the held-out one.

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
            "trained_on": {"sentences": self.num_sentences, "instances": self.num_occurrences},
            "results": {results.name: results.to_json() for results in self.results},
            **({"together": {"scores": _numbers(together)}} if together else {}),
        }


def _numbers(scores: Scores) -> dict[str, Any]:
    """Converts scores to dictionaries, None for parts of speech without occurrences."""
    return {
        method: {
            part: {
                "precision": score.precision,
                "recall": score.recall,
                "f1": score.f1,
                "instances": score.occurrences,
            }
            if score.occurrences
            else None
            for part, score in row.items()
        }
        for method, row in scores.items()
    }
