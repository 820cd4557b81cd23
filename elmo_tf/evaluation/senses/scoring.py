"""Answers and gold keys ─► precision, recall and F1, as the evaluation framework counts them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from elmo_tf.evaluation.senses.parts_of_speech import PARTS_OF_SPEECH

Keys = Mapping[str, Collection[str]]


class SenseScore(NamedTuple):
    """How many occurrences were answered rightly; such scores can be added.

    correct: float. An occurrence counts as the share of its answers that are among its gold keys.
    answered: occurrences that have an answer.
    occurrences: all of them.
    """

    correct: float = 0.0
    answered: int = 0
    occurrences: int = 0

    @property
    def precision(self) -> float:
        """`correct / answered`, 0 if nothing is answered."""
        return self.correct / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """`correct / occurrences`, 0 if there are none."""
        return self.correct / self.occurrences if self.occurrences else 0.0

    @property
    def f1(self) -> float:
        """`2 · precision · recall / (precision + recall)`, 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(*(mine + its for mine, its in zip(self, other, strict=True)))


def sense_score(gold: Keys, answers: Keys) -> SenseScore:
    """Scores answers against gold keys.

    A repeated answer counts once. An occurrence without an answer lowers recall alone. Answers to
    occurrences without gold keys are passed over.

    Args:
        gold: for each occurrence's id its gold keys.
        answers: for each id the senses that were answered.

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
    """The score of all occurrences, and of those of each part of speech.

    Args:
        gold, answers: see `sense_score`.
        pos: for each occurrence's id "noun", "verb", "adj" or "adv".

    Returns:
        "all", and the parts of speech in this order.
    """
    parts = {
        part: {occurrence: keys for occurrence, keys in gold.items() if pos[occurrence] == part}
        for part in PARTS_OF_SPEECH
    }
    return {
        "all": sense_score(gold, answers),
        **{part: sense_score(keys, answers) for part, keys in parts.items()},
    }
