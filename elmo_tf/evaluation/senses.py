"""Word sense disambiguation by the nearest sense vector in each layer, and its F1.

Data are sense-tagged text (XML and a file of gold keys), and inventories of senses.
"""

import itertools
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from absl import logging

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.vectors import check_all_layers, unit_vectors
from elmo_tf.logs import progress_over
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import line_error

# Parts of speech of sense-tagged text and of inventories, by their names in results.
POS_OF_TAG = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
_POS_OF_LETTER = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_TEXT_SUFFIX, _GOLD_SUFFIX = ".data.xml", ".gold.key.txt"

# In layer 0 a token has the same vector in every sentence, so that means of different senses may
# differ only by rounding errors.
_TOLERANCE = 1e-6

LemmaPos = tuple[str, str]
Answers = Mapping[str, Mapping[str, Mapping[str, str | None]]]


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


def evaluate_senses(
    embedder: Embedder,
    train: Sequence[SenseSentence],
    tests: Mapping[str, Sequence[SenseSentence]],
    inventory: Mapping[LemmaPos, Sequence[str]],
) -> dict[str, Any]:
    """Disambiguates words by the nearest mean vector of a sense in the training data.

    `sense(w) = argmax_s cos(h(w), mean_{instances of s} h)`, separately for each layer, over the
    senses that w's lemma and part of speech have in the training data. If there are none, the
    answer is the first sense of the inventory; if the inventory lacks the lemma, there is no
    answer. Senses of the training data need not be in the inventory. If several senses are equally
    near, the most frequent one is the answer.

    The paper does not name its measure; the cosine is our choice.

    Args:
        embedder: an `Embedder` with `layers="all"`, or a `VectorSource`.
        train: training sentences, see `read_sense_corpus`.
        tests: the sentences of each test set, by its name.
        inventory: see `read_inventory`.

    Returns:
        A dict: "f1", for each method the F1 of each test set, and of all of them together by part
        of speech and in "all" (None without instances); "instances", the number of instances
        of each of these; and "answers", the sense key (or None) of each instance id by test set
        and method. The methods are "first_sense" (of the inventory), "most_frequent" (sense of the
        training data), "layer_0", and so on.

    Raises:
        ValueError: `embedder` does not return all layers, or vectors are not finite.

    Source: Peters et al. 2018, section 5.3; Melamud et al. 2016.
    """
    check_all_layers(embedder)
    sentences = itertools.chain.from_iterable(tests.values())
    lemmas = {instance.lemma_pos for sentence in sentences for instance in sentence.instances}
    shown = progress_over(train, len(train), "training", "sentences")
    senses = mean_sense_vectors(instance_vectors(embedder, shown, lemmas), inventory)
    methods = ["first_sense", "most_frequent"]
    methods += [f"layer_{layer}" for layer in range(embedder.num_layers)]
    answers = {name: {method: {} for method in methods} for name in tests}
    for name, test in tests.items():
        shown = progress_over(test, len(test), f"testing on {name}", "sentences")
        for instance, vectors in instance_vectors(embedder, shown, lemmas):
            first = next(iter(inventory.get(instance.lemma_pos, ())), None)
            found = [first] * (len(methods) - 1)
            if instance.lemma_pos in senses:
                keys, units = senses[instance.lemma_pos]
                cosines = np.einsum("lsf,lf->ls", units, unit_vectors(vectors))
                is_best = cosines >= cosines.max(axis=1, keepdims=True) - _TOLERANCE
                found = [keys[0], *(keys[index] for index in is_best.argmax(axis=1))]
            for method, sense in zip(methods, [first, *found], strict=True):
                answers[name][method][instance.id] = sense
    return {**f1_table(tests, answers), "answers": answers}


def f1_table(tests: Mapping[str, Sequence[SenseSentence]], answers: Answers) -> dict[str, Any]:
    """Scores answers; see `evaluate_senses` for the arguments and the result.

    `F1 = 2 · correct / (answered + instances)`. An answer is correct if it is one of the gold keys.

    Source: Raganato et al. 2017, and the framework's `Scorer`.
    """
    columns: dict[str, list[tuple[str, SenseInstance]]] = {
        name: [(name, instance) for sentence in test for instance in sentence.instances]
        for name, test in tests.items()
    }
    together = [pair for pairs in columns.values() for pair in pairs]
    for pos in POS_OF_TAG.values():
        columns[pos] = [pair for pair in together if pair[1].pos == pos]
    columns["all"] = together
    scores: dict[str, dict[str, float | None]] = {}
    for method in next(iter(answers.values())):
        scores[method] = {}
        for column, pairs in columns.items():
            given = [(answers[name][method][one.id], one.senses) for name, one in pairs]
            num_correct = sum(sense in gold for sense, gold in given)
            num_answered = sum(sense is not None for sense, _ in given)
            f1 = 2 * num_correct / (num_answered + len(given)) if given else None
            scores[method][column] = f1
    return {"instances": {name: len(pairs) for name, pairs in columns.items()}, "f1": scores}


def instance_vectors(
    embedder: Embedder, sentences: Iterable[SenseSentence], lemmas: Collection[LemmaPos]
) -> Iterator[tuple[SenseInstance, np.ndarray]]:
    """Yields the instances of some lemmas, with the mean vectors of their tokens.

    The vectors are (layer, feature). Sentences without such an instance are not embedded.
    """
    wanted = (
        (tokens, found)
        for tokens, instances in sentences
        if (found := [instance for instance in instances if instance.lemma_pos in lemmas])
    )
    embedded, needed = itertools.tee(wanted)
    arrays = embedder.embed(tokens for tokens, _ in embedded)
    for array, (_, instances) in zip(arrays, needed, strict=True):
        for one in instances:
            vectors = array[:, one.first : one.end].mean(axis=1)
            if not np.isfinite(vectors).all():
                raise ValueError(
                    f"Vectors of {one.id!r} are not finite (NaN or infinity): the model's "
                    "weights are damaged or far too large."
                )
            yield one, vectors


def mean_sense_vectors(
    instances: Iterable[tuple[SenseInstance, np.ndarray]],
    inventory: Mapping[LemmaPos, Sequence[str]],
) -> dict[LemmaPos, tuple[list[str], np.ndarray]]:
    """Averages the vectors (layer, feature) of the instances of each sense.

    An instance with several gold keys counts for each of them.

    Returns:
        For each lemma its sense keys, the most frequent first, and their mean vectors of length 1,
        float32 (layer, sense, feature). The order of the inventory resolves ties of frequency;
        senses that it lacks come last.
    """
    sums: defaultdict[LemmaPos, dict[str, np.ndarray]] = defaultdict(dict)
    counts: Counter[tuple[LemmaPos, str]] = Counter()
    for instance, vectors in instances:
        of_lemma = sums[instance.lemma_pos]
        for sense in instance.senses:
            counts[instance.lemma_pos, sense] += 1
            of_lemma[sense] = of_lemma[sense] + vectors if sense in of_lemma else vectors
    senses = {}
    for lemma, of_lemma in sums.items():
        order = [*inventory.get(lemma, ()), *of_lemma]
        keys = sorted(of_lemma, key=lambda sense: (-counts[lemma, sense], order.index(sense)))
        # The length of a sum does not matter.
        senses[lemma] = keys, unit_vectors(np.stack([of_lemma[sense] for sense in keys], axis=1))
    return senses


def corpus_name(path: str | os.PathLike) -> str:
    """The name X of a text `X.data.xml`; `ValueError` for another file name."""
    name = Path(path).name
    if not name.endswith(_TEXT_SUFFIX):
        raise ValueError(
            f"{os.fspath(path)}: its name must end in {_TEXT_SUFFIX}; the gold keys of "
            f"X{_TEXT_SUFFIX} are in X{_GOLD_SUFFIX} beside it."
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
            # Files of keys separate columns by spaces.
            if name.split() != [name] or not lemma.strip() or not words or tag not in POS_OF_TAG:
                xml = ElementTree.tostring(child, "unicode").strip()
                raise ValueError(
                    f"{path}: an instance needs an id without spaces, a lemma, a word, and one of "
                    f"{', '.join(POS_OF_TAG)} as pos. Received: {xml}"
                )
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
        ValueError: a line lacks a column or has an unknown part of speech.
        OSError: the file cannot be read.
    """
    rows: defaultdict[LemmaPos, list[tuple[bool, str]]] = defaultdict(list)
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        lemma, letter, sense = ([*map(str.strip, line.split("\t")), "", ""])[:3]
        if not (lemma and letter in _POS_OF_LETTER and sense):
            letters = ", ".join(_POS_OF_LETTER)
            message = f"expected a lemma, a part of speech ({letters}) and a sense key, with tabs."
            raise line_error(path, number, f"{message} Received: {line.strip()[:80]!r}")
        lemma = _joined(lemma)
        rows[lemma.lower(), _POS_OF_LETTER[letter]].append((lemma != lemma.lower(), sense))
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

    Returns the distinct keys of each id. Raises a `ValueError` if a line has no key, or an id is
    repeated.
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
    return keys


def write_keys(path: Path, answers: Mapping[str, str | None]) -> None:
    """Writes the answered sense key of each instance, in the format of the official scorer."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{name} {sense}\n" for name, sense in answers.items() if sense)
