"""Scores of task models: of labels, tags and spans, answers, semantic roles and coreference."""

import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.lazy import require_extra
from elmo_tf.tasks.tag_schemes import ANY_SCHEME, spans_of

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_VERB = "V"
# Of one document: entities, each a collection of mentions, such as (first token, last token).
Entities = Iterable[Iterable[Hashable]]


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores spans, which are correct if both ends and the type are.

    Args:
        gold, predicted: the tags of each sentence, of any scheme.

    Returns:
        "precision", "recall" and "f1" over all spans, 0 to 1; "spans", the number of gold spans;
        and "types", the same for each type.
    """
    spans = [[set(spans_of(tags, ANY_SCHEME)) for tags in each] for each in (gold, predicted)]
    return _scores_of_labels(_counts_by_label(zip(*spans, strict=True)), "spans")


def tag_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores tags: "accuracy", the share of tokens with the correct tag; "tokens", their number."""
    flat = [[tag for tags in sentences for tag in tags] for sentences in (gold, predicted)]
    return {"accuracy": _accuracy(*flat), "tokens": len(flat[0])}


def label_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict:
    """Scores labels of examples.

    Returns:
        "accuracy"; "macro_f1", the mean over labels; "examples", their number; "labels", the
        precision, recall and F1 of each label; and "confusion", for each gold label the counts of
        the labels that are predicted for it.
    """
    pairs = Counter(zip(gold, predicted, strict=True))
    of_gold, of_predicted = Counter(gold), Counter(predicted)
    labels = {
        label: _scores(pairs[label, label], of_gold[label], of_predicted[label], name="examples")
        for label in sorted(of_gold | of_predicted)
    }
    confusion: dict[str, dict[str, int]] = {}
    for (label, other), count in sorted(pairs.items()):
        confusion.setdefault(label, {})[other] = count
    return {
        "accuracy": _accuracy(gold, predicted),
        "macro_f1": sum(scores["f1"] for scores in labels.values()) / max(len(labels), 1),
        "examples": len(gold),
        "labels": labels,
        "confusion": confusion,
    }


def _accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(gold, predicted, strict=True)) / max(len(gold), 1)


# How many items are correct, gold and predicted.
_Counts = tuple[int, int, int]


def _counts_by_label(pairs: Iterable[tuple[set[Any], set[Any]]]) -> dict[str, _Counts]:
    """Counts of gold and predicted items of each example, by their `label`."""
    correct, gold, predicted = Counter(), Counter(), Counter()
    for ours, theirs in pairs:
        correct.update(each.label for each in ours & theirs)
        gold.update(each.label for each in ours)
        predicted.update(each.label for each in theirs)
    return {name: (correct[name], gold[name], predicted[name]) for name in gold | predicted}


def _scores_of_labels(counts: Mapping[str, _Counts], name: str) -> dict[str, Any]:
    """The scores of all items, and of those of each label as "types"."""
    total = map(sum, zip((0, 0, 0), *counts.values(), strict=True))
    types = {label: _scores(*counts[label], name=name) for label in sorted(counts)}
    return {**_scores(*total, name=name), "types": types}


def _scores(correct: int, gold: int, predicted: int, name: str) -> dict[str, float]:
    """Precision, recall and F1; 0 for 0 / 0. `name` is that of the number of gold items."""
    return {
        "precision": correct / max(predicted, 1),
        "recall": correct / max(gold, 1),
        "f1": 2 * correct / max(gold + predicted, 1),
        name: gold,
    }


def answer_scores(gold: Sequence[Sequence[str]], predicted: Sequence[str | None]) -> dict:
    """Scores answers by exact match and by the tokens that they share with a gold answer.

    Answers are compared as `normalized_answer` gives them. Each score is the maximum over the gold
    answers of a question.

    Args:
        gold: the texts of the gold answers of each question, at least one.
        predicted: one text for each question. None, no prediction, scores 0.

    Returns:
        "em", the share of exact matches, and "f1", both means over all questions, 0 to 1; and
        "questions", their number.

    Source: Rajpurkar et al. 2016, section 6.1, and evaluate-v1.1.py.
    """
    em = f1 = 0.0
    for answers, text in zip(gold, predicted, strict=True):
        if text is not None:
            answer, *answers = map(normalized_answer, (text, *answers))
            em += answer in answers
            f1 += max(_f1(each, answer) for each in answers)
    num_questions = max(len(gold), 1)
    return {"em": em / num_questions, "f1": f1 / num_questions, "questions": len(gold)}


def normalized_answer(text: str) -> str:
    """Text in lower case, without ASCII punctuation and English articles, with single spaces.

    Punctuation is deleted first: "a-b" becomes "ab", and keeps its "a".
    """
    words = _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION))
    return " ".join(words.split())


def _f1(gold: str, predicted: str) -> float:
    """F1 of the two multisets of tokens; 0 without tokens, even if both have none."""
    ours, theirs = Counter(gold.split()), Counter(predicted.split())
    return 2 * (ours & theirs).total() / max(ours.total() + theirs.total(), 1)


class Argument(NamedTuple):
    """An argument of a proposition: its role, without "C-", and its phrases."""

    label: str
    phrases: tuple[tuple[int, int], ...]  # the first and the last token of each


def role_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores arguments, which are correct if their type and all their phrases are.

    The type V is not an argument: neither the overall scores nor perfect propositions depend on it.
    Every gold proposition must have a prediction. Unlike here, srl-eval.pl matches propositions by
    their verbs: it skips predicted propositions without a gold one, and counts all arguments of
    gold propositions without a prediction as missed.

    Args:
        gold, predicted: BIO tags of each proposition, see `arguments`.

    Returns:
        "precision", "recall" and "f1" over all arguments, 0 to 1; "arguments", the number of gold
        arguments; "perfect_propositions", the share of propositions with all arguments correct and
        no other, 0 to 1; "propositions", their number; "types", precision, recall, F1 and number of
        each type; and "V", the same for the verbs.

    Source: Carreras and Màrquez 2005, section 2, and srl-eval.pl of srlconll-1.1.
    """
    pairs = [
        *zip(*([set(arguments(tags)) for tags in each] for each in (gold, predicted)), strict=True)
    ]
    counts = _counts_by_label(pairs)
    verbs = counts.pop(_VERB, (0, 0, 0))
    perfect = sum(all(each.label == _VERB for each in ours ^ theirs) for ours, theirs in pairs)
    return {
        **_scores_of_labels(counts, "arguments"),
        "perfect_propositions": perfect / max(len(pairs), 1),
        "propositions": len(pairs),
        _VERB: _scores(*verbs, name="arguments"),
    }


def found_role_scores(
    gold: Sequence[Mapping[int, Sequence[str]]], predicted: Sequence[Mapping[int, Sequence[str]]]
) -> dict:
    """Scores propositions whose predicates are predicted too.

    Args:
        gold, predicted: the propositions of each sentence: BIO tags by the index of the predicate.

    Returns:
        "predicates": precision, recall and F1 of the predicates, and their number; "end_to_end":
        those of the arguments, see `role_scores`, which are correct only for a gold predicate.
    """
    pairs = [*zip(gold, predicted, strict=True)]
    both = [
        (ours.get(predicate, ()), theirs.get(predicate, ()))
        for ours, theirs in pairs
        for predicate in ours.keys() | theirs.keys()
    ]
    counts = (
        sum(len(ours.keys() & theirs.keys()) for ours, theirs in pairs),
        *(sum(map(len, propositions)) for propositions in (gold, predicted)),
    )
    roles = role_scores([tags for tags, _ in both], [tags for _, tags in both])
    names = ("precision", "recall", "f1", "arguments")
    return {
        "predicates": _scores(*counts, name="predicates"),
        "end_to_end": {name: roles[name] for name in names},
    }


def arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments of a proposition, in the order of their first phrases, from BIO tags.

    A phrase of type C-X continues the latest argument X before it. Without one, it is an X itself.
    R-X is a type of its own. I-X that follows another type or O begins a phrase.
    """
    in_order = []
    latest = {}  # the phrases of the latest argument of each type
    for name, first, end in spans_of(tags, "IOB1"):
        type_ = name.removeprefix("C-")
        if type_ == name or type_ not in latest:
            latest[type_] = []
            in_order.append((type_, latest[type_]))
        latest[type_].append((first, end - 1))
    return [Argument(type_, tuple(phrases)) for type_, phrases in in_order]


def coreference_scores(gold: Sequence[Entities], predicted: Sequence[Entities]) -> dict:
    """Scores the entities of documents by MUC, B³ and CEAF-φ4.

    For the gold entities k and the predicted entities r of a document:

    MUC: recall `n / sum_k (|k| - 1)`, precision `n / sum_r (|r| - 1)`, where n is the sum of
    `|k ∩ r| - 1` over all k and r that share mentions.

    B³: recall `sum_k,r |k ∩ r|² / |k| / sum_k |k|`, precision `sum_k,r |k ∩ r|² / |r| / sum_r |r|`.

    CEAF-φ4: recall `s / number of k`, precision `s / number of r`, where s is the largest sum of
    `φ4(k, r) = 2 |k ∩ r| / (|k| + |r|)` over pairs that use each k and each r once at most.

    Numerators and denominators are summed over the documents. Entities of a single mention count.
    Mentions are compared by value. A mention that occurs twice in a document counts only in its
    first entity. The reference scorer does the same for predictions, but counts repeated gold
    mentions twice, so its CEAF can exceed 1.

    Returns:
        "muc", "b_cubed" and "ceaf_e", each with "precision", "recall" and "f1", 0 to 1; and
        "average", the mean of the three F1.

    Raises:
        ImportError: SciPy is not installed.

    Source: Vilain et al. 1995, Bagga and Baldwin 1998, Luo 2005; Pradhan et al. 2014 (version 8.01
    of the reference scorer).
    """
    counts: dict[str, list[tuple[float, ...]]] = {"muc": [], "b_cubed": [], "ceaf_e": []}
    for ours, theirs in zip(gold, predicted, strict=True):
        overlaps = _overlaps(_distinct(ours), _distinct(theirs))
        for metric, count in (("muc", _muc), ("b_cubed", _b_cubed), ("ceaf_e", _ceaf_e)):
            counts[metric].append(count(*overlaps))
    scores = {metric: _metric_scores(rows) for metric, rows in counts.items()}
    return {**scores, "average": sum(metric["f1"] for metric in scores.values()) / len(scores)}


def _distinct(entities: Entities) -> list[set[Hashable]]:
    """The entities without repeated mentions and without empty entities."""
    seen, distinct = set(), []
    for entity in entities:
        distinct.append(set(entity) - seen)
        seen |= distinct[-1]
    return list(filter(None, distinct))


def _overlaps(gold: list[set[Hashable]], predicted: list[set[Hashable]]) -> list[np.ndarray]:
    """Numbers of mentions: |k ∩ r| (gold entity, predicted entity), |k| and |r|."""
    shared = [[len(entity & other) for other in predicted] for entity in gold]
    sizes = (np.array([*map(len, entities)], int) for entities in (gold, predicted))
    return [np.reshape(shared, (len(gold), len(predicted))), *sizes]


# Each metric gives numerator and denominator of the recall, then those of the precision.


def _muc(shared: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> tuple[float, ...]:
    links = np.maximum(shared - 1, 0).sum()
    return links, (gold - 1).sum(), links, (predicted - 1).sum()


def _b_cubed(shared: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> tuple[float, ...]:
    recalled, precise = shared**2 / gold[:, None], shared**2 / predicted
    return recalled.sum(), gold.sum(), precise.sum(), predicted.sum()


def _ceaf_e(shared: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> tuple[float, ...]:
    optimize = require_extra("scipy.optimize", "tasks", "The score of coreference")
    similarity = 2 * shared / (gold[:, None] + predicted)
    matched = similarity[optimize.linear_sum_assignment(similarity, maximize=True)].sum()
    return matched, len(gold), matched, len(predicted)


def _metric_scores(rows: Iterable[tuple[float, ...]]) -> dict[str, float]:
    recalled, gold, precise, predicted = np.reshape([*rows], (-1, 4)).sum(axis=0).tolist()
    recall = recalled / gold if gold else 0.0
    precision = precise / predicted if predicted else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
