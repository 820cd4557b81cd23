"""Scores of word sense disambiguation: precision, recall and F1, as in Raganato et al. 2017."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from elmo_tf.evaluation.sense_corpus import POS_OF_TAG, SenseInstance

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
