"""Sense-tagged text: an XML file of sentences and a file of gold keys."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from absl import logging

from elmo_tf.evaluation.senses.sense_xml import read_sense_xml
from elmo_tf.text.vocabulary import read_lines

_TEXT_SUFFIX, _GOLD_SUFFIX = ".data.xml", ".gold.key.txt"

LemmaPos = tuple[str, str]


class Occurrence(NamedTuple):
    """An occurrence of a lemma, tokens `[first:end]` of its sentence, with gold keys."""

    id: str  # unique in its corpus
    lemma: str  # in lower case, its words joined by underscores
    pos: str  # "noun", "verb", "adj" or "adv"
    first: int
    end: int
    senses: tuple[str, ...]  # the gold keys, at least one

    @property
    def lemma_pos(self) -> LemmaPos:
        """The lemma and its part of speech."""
        return self.lemma, self.pos


class SenseSentence(NamedTuple):
    """A sentence; `text` is the number of its text in the corpus, from 0."""

    text: int
    tokens: list[str]
    occurrences: list[Occurrence]


class SenseCorpus:
    """Sense-tagged text that can be iterated repeatedly; only the gold keys are in memory.

    The text is `<corpus> <text> <sentence>`, with words in `<wf>` and `<instance id lemma pos>`:
    the format of the framework of Raganato et al. 2017. Elements of several words are split like
    `str.split()`. Instances without gold keys are read as plain words and counted in a warning.

    Args:
        path: `X.data.xml`. `X.gold.key.txt` beside it has lines of id and sense keys.

    Yields:
        A `SenseSentence` for each sentence.

    Raises:
        ValueError: the XML is broken, has another structure or a document type declaration; a part
            of speech is unknown; an id is repeated; gold keys belong to no instance; or there is no
            instance. The message names the file and, if possible, the line.
        OSError: a file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self.name = Path(path).name.removesuffix(_TEXT_SUFFIX)
        os.stat(path)  # report a missing text before its missing gold keys
        self._gold_path = gold_path(path)
        self._gold = read_keys(self._gold_path)
        self._warned = False

    def __iter__(self) -> Iterator[SenseSentence]:
        seen: set[str] = set()
        num_without_gold = 0
        for text, tokens, instances in read_sense_xml(self.path):
            occurrences = []
            for instance in instances:
                if instance.id in seen:
                    raise ValueError(
                        f"{self.path}, line {instance.line}: the id {instance.id!r} is repeated."
                    )
                seen.add(instance.id)
                senses = self._gold.get(instance.id)
                if senses is None:
                    num_without_gold += 1
                else:
                    occurrences.append(Occurrence(*instance[:-1], senses))
            yield SenseSentence(text, tokens, occurrences)
        unknown = next((occurrence for occurrence in self._gold if occurrence not in seen), None)
        if unknown is not None:
            raise ValueError(
                f"{os.fspath(self._gold_path)} has sense keys for {unknown!r}, which is not an "
                f"instance of {self.path}. Do the files belong together?"
            )
        if num_without_gold and not self._warned:
            self._warned = True
            logging.warning(
                "%s: %d of %d instances have no gold keys and are read as plain words.",
                *(self.path, num_without_gold, len(seen)),
            )


def gold_path(text: str | os.PathLike) -> Path:
    """Returns the path of a text's gold keys: `X.gold.key.txt` beside `X.data.xml`.

    Raises:
        ValueError: the text has another name.
    """
    text = Path(text)
    if not text.name.endswith(_TEXT_SUFFIX):
        raise ValueError(
            f"Cannot find the gold keys of {text}: its name must end in {_TEXT_SUFFIX}, so that "
            f"the keys are in X{_GOLD_SUFFIX} beside X{_TEXT_SUFFIX}. Rename the file."
        )
    return text.with_name(text.name.removesuffix(_TEXT_SUFFIX) + _GOLD_SUFFIX)


def read_keys(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
    """Reads lines of an occurrence's id and its sense keys, separated by spaces.

    Returns:
        For each id its distinct keys.

    Raises:
        ValueError: a line has no key, an id is repeated, or the file has no key.
        OSError: the file cannot be read.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        occurrence, *senses = fields
        place = f"{os.fspath(path)}, line {number}"
        if not senses:
            raise ValueError(f"{place}: {occurrence!r} has no sense key.")
        if occurrence in keys:
            raise ValueError(f"{place}: {occurrence!r} has sense keys on an earlier line.")
        keys[occurrence] = tuple(dict.fromkeys(map(sys.intern, senses)))  # equal keys share memory
    if not keys:
        raise ValueError(f"{os.fspath(path)} has no sense key.")
    return keys


def write_keys(path: Path, keys: Mapping[str, Iterable[str]]) -> None:
    """Writes the format of `read_keys`, without the occurrences that have no key."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        for occurrence, senses in keys.items():
            if senses:
                file.write(f"{' '.join([occurrence, *senses])}\n")
