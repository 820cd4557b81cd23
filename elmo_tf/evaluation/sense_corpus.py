"""Sense-tagged text (XML and a file of gold keys), and inventories of senses."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from absl import logging

from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import line_error

# Parts of speech of sense-tagged text and of inventories, by their names in results.
POS_OF_TAG = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
_POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_TEXT_SUFFIX, _GOLD_SUFFIX = ".data.xml", ".gold.key.txt"
_PARENTS = {"corpus": None, "text": "corpus", "sentence": "text"}
_PARENTS |= {"wf": "sentence", "instance": "sentence"}

LemmaPos = tuple[str, str]


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
        # By the lower-case lemma, with the lemma: "march" also has the senses of "March".
        self._senses: defaultdict[LemmaPos, list[tuple[str, str]]] = defaultdict(list)
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            lemma, letter, sense = ([*map(str.strip, line.split("\t")), "", ""])[:3]
            if not (lemma and letter and sense):
                message = "expected a lemma, a part of speech and a sense key, separated by tabs."
                raise line_error(path, number, f"{message} Received: {line.strip()[:80]!r}")
            if letter not in _POS_OF_LETTER:
                message = f"the part of speech must be one of {', '.join(_POS_OF_LETTER)}."
                raise line_error(path, number, f"{message} Received: {letter!r}")
            lemma, pos = _joined(lemma), _POS_OF_LETTER[letter]
            self._senses[lemma.lower(), pos].append((lemma, sense))
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
        lemma = _joined(lemma)
        rows = self._senses.get((lemma.lower(), pos), ())
        rows = sorted(rows, key=lambda row: row[0] != lemma)  # the exact spelling first
        return list(dict.fromkeys(sense for _, sense in rows))

    def first_sense(self, lemma: str, pos: str) -> str | None:
        """Returns the first of these senses, or None if there is none."""
        return next(iter(self.senses(lemma, pos)), None)


class SenseInstance(NamedTuple):
    """An occurrence of a lemma, tokens `[first:end]` of its sentence, with gold keys."""

    id: str  # unique in its corpus
    lemma: str  # in lower case, its words joined by underscores
    pos: str  # "noun", "verb", "adj" or "adv"
    first: int
    end: int
    senses: tuple[str, ...]  # the gold keys; empty if the instance has none

    @property
    def lemma_pos(self) -> LemmaPos:
        """The lemma and its part of speech."""
        return self.lemma, self.pos


class SenseSentence(NamedTuple):
    """A sentence; `text` is the number of its text in the corpus, from 0."""

    text: int
    tokens: list[str]
    instances: list[SenseInstance]


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
        ValueError: the XML is broken or has another structure; a part of speech is unknown; an id
            is repeated; gold keys belong to no instance; or there is no instance.
        OSError: a file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.name.endswith(_TEXT_SUFFIX):
            raise ValueError(
                f"Cannot find the gold keys of {path}: its name must end in {_TEXT_SUFFIX}, so "
                f"that the keys are in X{_GOLD_SUFFIX} beside X{_TEXT_SUFFIX}. Rename the file."
            )
        self.name = self.path.name.removesuffix(_TEXT_SUFFIX)
        os.stat(path)  # report a missing text before its missing gold keys
        self._gold_path = self.path.with_name(self.name + _GOLD_SUFFIX)
        self._gold = read_keys(self._gold_path)
        self._warned = False

    def __iter__(self) -> Iterator[SenseSentence]:
        seen: set[str] = set()
        for sentence in self._sentences():
            for one in sentence.instances:
                if one.id in seen:
                    raise ValueError(f"{self.path}: the id {one.id!r} is repeated.")
                seen.add(one.id)
            yield sentence._replace(instances=[one for one in sentence.instances if one.senses])
        if not seen:
            raise ValueError(f"{self.path} has no <instance>.")
        if unknown := [name for name in self._gold if name not in seen]:
            raise ValueError(
                f"{self._gold_path} has sense keys for {unknown[0]!r}, which is not an instance of "
                f"{self.path}. Do the files belong together?"
            )
        num_plain = len(seen) - len(self._gold)
        if num_plain and not self._warned:
            self._warned = True
            message = "%s: %d of %d instances have no gold keys and are read as plain words."
            logging.warning(message, self.path, num_plain, len(seen))

    def _sentences(self) -> Iterator[SenseSentence]:
        """The sentences, with all their instances."""
        parents: list[str | None] = [None]
        text = -1
        try:
            for event, element in ElementTree.iterparse(self.path, ("start", "end")):
                if event == "start":
                    if _PARENTS.get(element.tag, "") != parents[-1]:
                        raise ValueError(
                            f"{self.path}: <{element.tag}> is not allowed in <{parents[-1]}>. The "
                            "structure is <corpus> <text> <sentence> <wf> or <instance>."
                        )
                    parents.append(element.tag)
                    text += element.tag == "text"
                    continue
                parents.pop()
                if element.tag not in ("wf", "instance"):
                    outside = [element.text, *(child.tail for child in element)]
                    if found := "".join(part or "" for part in outside).split():
                        raise ValueError(
                            f"{self.path}: text outside <wf> and <instance>: "
                            f"{' '.join(found)[:60]!r}."
                        )
                    if element.tag == "sentence":
                        yield self._sentence(text, element)
                    element.clear()  # frees the memory of its children
        except ElementTree.ParseError as error:
            raise ValueError(f"{self.path}: broken XML: {error}.") from None

    def _sentence(self, text: int, element: ElementTree.Element) -> SenseSentence:
        tokens: list[str] = []
        instances = []
        for child in element:
            first, words = len(tokens), (child.text or "").split()
            tokens += words
            if child.tag != "instance":
                continue
            name, lemma, tag = (child.get(key, "") for key in ("id", "lemma", "pos"))
            problem = None
            # Files of keys separate columns by spaces.
            if name.split() != [name] or not lemma.strip() or not words:
                problem = "needs an id without spaces, a lemma and a word"
            elif tag not in POS_OF_TAG:
                problem = f"must have one of {', '.join(POS_OF_TAG)} as pos, not {tag!r}"
            if problem:
                xml = ElementTree.tostring(child, "unicode").strip()
                raise ValueError(f"{self.path}: an instance {problem}. Received: {xml}")
            where = (POS_OF_TAG[tag], first, len(tokens))
            senses = self._gold.get(name, ())
            instances.append(SenseInstance(name, _joined(lemma).lower(), *where, senses))
        return SenseSentence(text, tokens, instances)


def numbered_sentences(
    corpora: Sequence[SenseCorpus],
) -> Iterator[tuple[tuple[int, int], SenseSentence]]:
    """Yields the sentences of corpora, with the indices of the corpus and of the text in it."""
    for index, corpus in enumerate(corpora):
        for sentence in corpus:
            yield (index, sentence.text), sentence


def held_out_texts(
    corpora: Sequence[SenseCorpus], share: float
) -> tuple[set[tuple[int, int]], int, int]:
    """Finds the fewest last texts that have at least a share of the instances.

    All corpora are read, so that errors in them are found early.

    Returns:
        These texts, and the numbers of sentences and of instances in the others.

    Raises:
        ValueError: the share is not from 0 to below 1, or leaves no text to train on.
    """
    if not 0 <= share < 1:
        raise ValueError(f"`held_out` must be from 0 to below 1. Received: {share!r}")
    counts: defaultdict[tuple[int, int], np.ndarray] = defaultdict(lambda: np.zeros(2, int))
    for text, sentence in numbered_sentences(corpora):
        counts[text] += 1, len(sentence.instances)
    last_first = list(counts)[::-1]
    sizes = np.cumsum([counts[text][1] for text in last_first])
    num_held_out = int(np.searchsorted(sizes, share * sizes[-1])) + 1 if share else 0
    if num_held_out == len(counts):
        raise ValueError(
            f"Holding out {share:g} of the instances would leave no text to train on: there are "
            f"{num_held_out} texts. Hold out less, or train on more texts."
        )
    left = sum(counts[text] for text in last_first[num_held_out:])
    return set(last_first[:num_held_out]), *left.tolist()


def _joined(lemma: str) -> str:
    """Joins the words of a lemma, separated by spaces or underscores, by underscores."""
    return "_".join(lemma.replace("_", " ").split())


def read_keys(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
    """Reads lines of an instance's id and its sense keys, separated by spaces.

    Returns:
        For each id its distinct keys.

    Raises:
        ValueError: a line has no key, an id is repeated, or the file has no key.
        OSError: the file cannot be read.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        name, *senses = line.split() or [""]
        if name and not senses:
            raise line_error(path, number, f"{name!r} has no sense key.")
        if name in keys:
            raise line_error(path, number, f"{name!r} has sense keys on an earlier line.")
        if name:  # equal keys share memory
            keys[name] = tuple(dict.fromkeys(map(sys.intern, senses)))
    if not keys:
        raise ValueError(f"{os.fspath(path)} has no sense key.")
    return keys


def write_keys(path: Path, keys: Mapping[str, Iterable[str]]) -> None:
    """Writes the format of `read_keys`, without the instances that have no key."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{' '.join([name, *senses])}\n" for name, senses in keys.items() if senses)
