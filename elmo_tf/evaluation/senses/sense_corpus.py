"""Sense-tagged text in XML, with its gold keys ─► sentences, and the occurrences in them."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from absl import logging

from elmo_tf.evaluation.senses.gold_keys import gold_beside, name_of, read_keys
from elmo_tf.evaluation.senses.sense_xml import read_sense_xml

LemmaPos = tuple[str, str]


class Occurrence(NamedTuple):
    """A place of a sentence where a sense was told.

    id: unique in its corpus.
    lemma: in small letters, its words joined by underscores.
    pos: "noun", "verb", "adj" or "adv".
    first, end: its tokens are `tokens[first:end]`.
    senses: the gold keys, at least one.
    """

    id: str
    lemma: str
    pos: str
    first: int
    end: int
    senses: tuple[str, ...]

    @property
    def lemma_pos(self) -> LemmaPos:
        """What has senses."""
        return self.lemma, self.pos


class SenseSentence(NamedTuple):
    """A sentence; `text` is the number, from 0, of the text that it is part of."""

    text: int
    tokens: list[str]
    occurrences: list[Occurrence]


class SenseCorpus:
    """A text with senses, to be read any number of times; only the gold keys are kept.

    The text is `<corpus> <text> <sentence>`, in which `<wf>` and `<instance id lemma pos>` hold
    words: the format of the framework of Raganato et al. 2017. What holds several words is split
    where `str.split()` would. Occurrences without gold keys are plain words; a warning counts them.

    Args:
        path: `X.data.xml`.
        gold: lines of id and sense keys. Defaults to `X.gold.key.txt` beside the text.

    Iteration gives a `SenseSentence` for each sentence.

    Raises:
        ValueError: broken XML, another structure or a rare encoding, a document type declaration
            (with its entities a small file can unpack to a huge one), an unknown part of speech, an
            id given twice, gold keys of an occurrence that is not in the text, or no occurrence at
            all. Names the file, and the line if it is one line that is wrong.
        OSError: a file cannot be read.
    """

    def __init__(self, path: str | os.PathLike, gold: str | os.PathLike | None = None):
        self.path = os.fspath(path)
        self.name = name_of(path)
        os.stat(path)  # a wrong name is told of as that of the text, not of its gold keys
        self._gold_path = gold_beside(path) if gold is None else gold
        self._gold = read_keys(self._gold_path)
        self._warned = False

    def __iter__(self) -> Iterator[SenseSentence]:
        seen: set[str] = set()
        num_without_gold = 0
        for text, tokens, marked in read_sense_xml(self.path):
            occurrences = []
            for mark in marked:
                if mark.id in seen:
                    raise ValueError(f"{self.path}, line {mark.line}: a second {mark.id!r}.")
                seen.add(mark.id)
                senses = self._gold.get(mark.id)
                if senses is None:
                    num_without_gold += 1
                else:
                    occurrences.append(
                        Occurrence(mark.id, mark.lemma, mark.pos, mark.first, mark.end, senses)
                    )
            yield SenseSentence(text, tokens, occurrences)
        self._check(seen, num_without_gold)

    def _check(self, seen: set[str], num_without_gold: int) -> None:
        unknown = next((occurrence for occurrence in self._gold if occurrence not in seen), None)
        if unknown is not None:
            raise ValueError(
                f"{os.fspath(self._gold_path)} has sense keys of {unknown!r}, which is no instance "
                f"of {self.path}. Do they belong together?"
            )
        if num_without_gold and not self._warned:
            self._warned = True
            logging.warning(
                "%s: %d of %d instances have no gold keys and are read as plain words.",
                *(self.path, num_without_gold, len(seen)),
            )
