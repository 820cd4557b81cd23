"""Answers and gold keys ─► what a disambiguation achieved, set by set."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from elmo_tf.evaluation.senses.scoring import SenseScore, sense_scores
from elmo_tf.evaluation.senses.sense_corpus import Occurrence

FIRST_SENSE, MOST_FREQUENT, MAHALANOBIS = "first_sense", "most_frequent", "mahalanobis"
HELD_OUT = "held_out"

Scores = Mapping[str, Mapping[str, SenseScore]]


@dataclass(frozen=True)
class SenseResults:
    """What was answered on one test set.

    Attributes:
        name: of the set.
        occurrences: those with gold keys.
        answers: for each method ("first_sense"; "most_frequent", the commonest in training, and
            "layer_0" and so on, by cosine, and "layer_0_mahalanobis" and so on, all with the first
            sense for untrained lemmas) the sense keys answered, by the occurrences' ids; none where
            there is no answer.
        trained: ids of the occurrences whose lemma has senses in training.
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
        """The same, of the occurrences whose lemma has senses in training."""
        return self._scores(
            [occurrence for occurrence in self.occurrences if occurrence.id in self.trained]
        )

    @property
    def fell_back(self) -> list[Occurrence]:
        """The occurrences that get the first sense, since their lemma has none in training."""
        return [one for one in self.occurrences if one.id not in self.trained]

    def to_json(self) -> dict[str, Any]:
        """Counts and scores in plain numbers."""
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
    """What `evaluate_senses` found.

    Attributes:
        num_sentences, num_occurrences: trained on.
        results: of each test set; that of the texts held out is the last and called "held_out".
    """

    num_sentences: int
    num_occurrences: int
    results: list[SenseResults]

    def together(self) -> Scores | None:
        """The scores on all test sets but the held-out one, as on one set; None of fewer than two.

        Occurrences, not sets, count alike.
        """
        scores = [results.scores for results in self.results if results.name != HELD_OUT]
        if len(scores) < 2:
            return None
        return {
            method: {
                part: sum((one[method][part] for one in scores), SenseScore()) for part in of_method
            }
            for method, of_method in scores[0].items()
        }

    def to_json(self) -> dict[str, Any]:
        """The same in plain numbers, by test set."""
        together = self.together()
        return {
            "trained_on": {"sentences": self.num_sentences, "instances": self.num_occurrences},
            "results": {results.name: results.to_json() for results in self.results},
            **({"together": {"scores": _numbers(together)}} if together else {}),
        }


def _numbers(scores: Scores) -> dict[str, Any]:
    """For each method and part of speech its numbers, or None where nothing is to be answered."""
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
            for part, score in parts.items()
        }
        for method, parts in scores.items()
    }
