"""Sense-tagged text (XML and a file of gold keys), and inventories of senses."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from absl import logging

from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import line_error

# Parts of speech of sense-tagged text and of inventories, by their names in results.
POS_OF_TAG = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
_POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_TEXT_SUFFIX, _GOLD_SUFFIX = ".data.xml", ".gold.key.txt"

LemmaPos = tuple[str, str]


class SenseInstance(NamedTuple):
    """An occurrence of a lemma, tokens `[first:end]` of its sentence, with gold keys."""

    id: str  # unique in its corpus
    lemma: str  # in lower case, its words joined by underscores
    pos: str  # "noun", "verb", "adj" or "adv"
    first: int
    end: int
    senses: tuple[str, ...]  # the gold keys

    @property
    def lemma_pos(self) -> LemmaPos:
        """The lemma and its part of speech."""
        return self.lemma, self.pos


class SenseSentence(NamedTuple):
    """The tokens of a sentence, and its instances."""

    tokens: list[str]
    instances: list[SenseInstance]


def corpus_name(path: str | os.PathLike) -> str:
    """The name X of a text `X.data.xml`; `ValueError` for another file name."""
    name = Path(path).name
    if not name.endswith(_TEXT_SUFFIX):
        raise ValueError(
            f"Cannot find the gold keys of {os.fspath(path)}: its name must end in {_TEXT_SUFFIX}, "
            f"so that the keys are in X{_GOLD_SUFFIX} beside X{_TEXT_SUFFIX}. Rename the file."
        )
    return name.removesuffix(_TEXT_SUFFIX)


def read_sense_corpus(path: str | os.PathLike) -> list[SenseSentence]:
    """Reads a sense-tagged text and its gold keys.

    The text is `<corpus> <text> <sentence>`, with words in `<wf>` and `<instance id lemma pos>`:
    the format of the framework of Raganato et al. 2017. Elements of several words are split like
    `str.split()`. Instances without gold keys are read as plain words and counted in a warning.

    Args:
        path: `X.data.xml`. `X.gold.key.txt` beside it has lines of id and sense keys.

    Raises:
        ValueError: the XML is broken or has another structure; a part of speech is unknown; an id
            is repeated; gold keys belong to no instance; or there is no instance.
        OSError: a file cannot be read.
    """
    path = Path(path)
    gold_path = path.with_name(corpus_name(path) + _GOLD_SUFFIX)
    os.stat(path)  # report a missing text before its missing gold keys
    gold = read_keys(gold_path)
    try:
        # Each sentence is cleared when it has been read, which frees the memory of its children.
        parsed = (element for _, element in ElementTree.iterparse(path))
        sentences = [_sentence(path, one, gold) for one in parsed if one.tag == "sentence"]
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: broken XML: {error}.") from None
    counts = Counter(instance.id for sentence in sentences for instance in sentence.instances)
    if not counts:
        raise ValueError(f"{path} has no <instance> in a <sentence>.")
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path}: the id {name!r} is repeated.")
    if unknown := [name for name in gold if name not in counts]:
        raise ValueError(
            f"{gold_path} has sense keys for {unknown[0]!r}, which is not an instance of {path}. "
            "Do the files belong together?"
        )
    if len(counts) > len(gold):
        message = "%s: %d of %d instances have no gold keys and are read as plain words."
        logging.warning(message, path, len(counts) - len(gold), len(counts))
    return [
        SenseSentence(tokens, [instance for instance in instances if instance.senses])
        for tokens, instances in sentences
    ]


def _sentence(
    path: Path, element: ElementTree.Element, gold: Mapping[str, tuple[str, ...]]
) -> SenseSentence:
    """The tokens of a sentence and all its instances. Clears the element."""
    tokens: list[str] = []
    instances = []
    for child in element:
        if child.tag not in ("wf", "instance"):
            raise ValueError(f"{path}: <{child.tag}> in a <sentence>, not <wf> or <instance>.")
        first, words = len(tokens), (child.text or "").split()
        tokens += words
        if child.tag == "instance":
            name, lemma, tag = (child.get(key, "") for key in ("id", "lemma", "pos"))
            problem = None
            # Files of keys separate columns by spaces.
            if name.split() != [name] or not lemma.strip() or not words:
                problem = "needs an id without spaces, a lemma and a word"
            elif tag not in POS_OF_TAG:
                problem = f"must have one of {', '.join(POS_OF_TAG)} as pos, not {tag!r}"
            if problem:
                xml = ElementTree.tostring(child, "unicode").strip()
                raise ValueError(f"{path}: an instance {problem}. Received: {xml}")
            where = _joined(lemma).lower(), POS_OF_TAG[tag], first, len(tokens)
            instances.append(SenseInstance(name, *where, gold.get(name, ())))
    element.clear()
    return SenseSentence(tokens, instances)


def read_inventory(path: str | os.PathLike) -> dict[LemmaPos, list[str]]:
    """Reads the sense keys of each lemma, in order.

    Args:
        path: lines of lemma, part of speech (n, v, a, r) and sense key, separated by tabs; further
            columns are ignored. The senses of a lemma are in the order of their numbers.

    Returns:
        Sense keys by lemma, in lower case with its words joined by underscores, and part of speech.
        The senses of other capitalizations come last: "march" also has those of "March".

    Raises:
        ValueError: a line lacks a column or has an unknown part of speech, or the file has no
            sense.
        OSError: the file cannot be read.
    """
    rows: defaultdict[LemmaPos, list[tuple[bool, str]]] = defaultdict(list)
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
        lemma = _joined(lemma)
        rows[lemma.lower(), _POS_OF_LETTER[letter]].append((lemma != lemma.lower(), sense))
    if not rows:
        raise ValueError(f"{os.fspath(path)} has no sense.")
    # Sorted by capitalization only.
    return {
        key: list(dict.fromkeys(sense for _, sense in sorted(found, key=lambda row: row[0])))
        for key, found in rows.items()
    }


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


def write_keys(path: Path, answers: Mapping[str, str | None]) -> None:
    """Writes the answered sense key of each instance, in the format of the official scorer."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{name} {sense}\n" for name, sense in answers.items() if sense)
