"""Sense inventories: the senses of each lemma, most frequent first."""

import os

from elmo_tf.text.vocabulary import read_lines

# Parts of speech of sense-tagged text and of inventories, by their names in results.
POS_OF_TAG = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}


class SenseInventory:
    """The senses of each lemma, in order.

    Args:
        path: lines of lemma, part of speech (n, v, a, r) and sense key, separated by tabs; further
            columns are ignored. The senses of a lemma are in the order of their numbers.

    Raises:
        ValueError: a line lacks a column or has an unknown part of speech, or the file has no
            sense.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self._senses: dict[tuple[str, str], list[str]] = {}
        # By the lower-case lemma: "march" also has the senses of "March".
        self._folded: dict[tuple[str, str], list[str]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                lemma, pos, sense = _columns(line, f"{os.fspath(path)}, line {number}")
                self._senses.setdefault((lemma, pos), []).append(sense)
                self._folded.setdefault((lemma.lower(), pos), []).append(sense)
        if not self._senses:
            raise ValueError(f"{os.fspath(path)} has no sense.")

    def senses(self, lemma: str, pos: str) -> list[str]:
        """Returns the senses of a lemma, then those of its other capitalizations.

        Args:
            lemma: its words joined by spaces or underscores.
            pos: "noun", "verb", "adj" or "adv".

        Returns:
            Sense keys; an empty list for an unknown lemma.
        """
        lemma = normalized_lemma(lemma)
        exact = self._senses.get((lemma, pos), [])
        return list(dict.fromkeys([*exact, *self._folded.get((lemma.lower(), pos), [])]))

    def first_sense(self, lemma: str, pos: str) -> str | None:
        """Returns the first of these senses, or None if there is none."""
        return next(iter(self.senses(lemma, pos)), None)


def normalized_lemma(lemma: str) -> str:
    """Joins the words of a lemma, separated by spaces or underscores, by underscores."""
    return "_".join(lemma.replace("_", " ").split())


def _columns(line: str, place: str) -> tuple[str, str, str]:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < 3 or not all(fields[:3]):
        raise ValueError(
            f"{place}: expected a lemma, a part of speech and a sense key, separated by tabs. "
            f"Received: {line.strip()[:80]!r}"
        )
    lemma, letter, sense = fields[:3]
    if letter not in POS_OF_LETTER:
        raise ValueError(
            f"{place}: the part of speech must be one of {', '.join(POS_OF_LETTER)}. "
            f"Received: {letter!r}"
        )
    return normalized_lemma(lemma), POS_OF_LETTER[letter], sense
