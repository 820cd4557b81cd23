"""A table of lemmas and their senses ─► the senses of a lemma, the commonest first."""

import os

from elmo_tf.evaluation.senses.parts_of_speech import POS_OF_LETTER, joined
from elmo_tf.text.vocabulary import read_lines


class SenseInventory:
    """The senses of each lemma, in order.

    Args:
        path: lines of lemma, part of speech (n, v, a, r), and sense key, between tabs; further
            columns are not read. The senses of a lemma stand in the order of their numbers.

    Raises:
        ValueError: a line that lacks a column, an unknown part of speech, or no sense at all.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self._senses: dict[tuple[str, str], list[str]] = {}
        # The same under the small spelling: "march" has the senses of "March" too.
        self._folded: dict[tuple[str, str], list[str]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                lemma, pos, sense = _columns(line, f"{os.fspath(path)}, line {number}")
                self._senses.setdefault((lemma, pos), []).append(sense)
                self._folded.setdefault((lemma.lower(), pos), []).append(sense)
        if not self._senses:
            raise ValueError(f"{os.fspath(path)} holds no sense.")

    def senses(self, lemma: str, pos: str) -> list[str]:
        """The senses of a lemma as it is spelt, then those of other spellings in capitals.

        Args:
            lemma: its words joined by spaces or underscores.
            pos: "noun", "verb", "adj" or "adv".

        Returns:
            Sense keys; none if the inventory does not know the lemma.
        """
        lemma = joined(lemma)
        exact = self._senses.get((lemma, pos), [])
        return list(dict.fromkeys([*exact, *self._folded.get((lemma.lower(), pos), [])]))

    def first_sense(self, lemma: str, pos: str) -> str | None:
        """The first of these senses, or None if there is none."""
        return next(iter(self.senses(lemma, pos)), None)


def _columns(line: str, place: str) -> tuple[str, str, str]:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < 3 or not all(fields[:3]):
        raise ValueError(
            f"{place}: a lemma, a part of speech and a sense key must stand there, between tabs. "
            f"Received: {line.strip()[:80]!r}"
        )
    lemma, letter, sense = fields[:3]
    if letter not in POS_OF_LETTER:
        raise ValueError(
            f"{place}: the part of speech must be one of {', '.join(POS_OF_LETTER)}. "
            f"Received: {letter!r}"
        )
    return joined(lemma), POS_OF_LETTER[letter], sense
