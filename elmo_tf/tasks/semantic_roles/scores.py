"""Scores of semantic roles, as srl-eval.pl of CoNLL-2005 counts them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elmo_tf.tasks.tag_schemes import spans_of

_VERB = "V"


class Argument(NamedTuple):
    """An argument of a proposition: its role, without "C-", and its phrases.

    A phrase is its first and its last token. A discontinuous argument has several.
    """

    type: str
    phrases: tuple[tuple[int, int], ...]


def role_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores arguments, which are correct if their type and all their phrases are.

    The type V is not an argument: neither the overall scores nor perfect propositions depend on it.
    Every gold proposition must have a prediction. Unlike here, srl-eval.pl matches propositions by
    their verbs: it skips predicted propositions without a gold one, and counts all arguments of
    gold propositions without a prediction as missed.

    Args:
        gold: BIO tags of each proposition, see `arguments`.
        predicted: as many tags for each proposition.

    Returns:
        "precision", "recall" and "f1" over all arguments, 0 to 1; "arguments", the number of gold
        arguments; "perfect_propositions", the share of propositions with all arguments correct and
        no other, 0 to 1; "propositions", their number; "types", precision, recall, F1 and number of
        each type; and "V", the same for the verbs.

    Source: Carreras and Màrquez 2005, section 2, and srl-eval.pl of srlconll-1.1.
    """
    pairs = [
        (set(arguments(tags)), set(arguments(others)))
        for tags, others in zip(gold, predicted, strict=True)
    ]
    counts = [
        _type_counts(ours & theirs for ours, theirs in pairs),
        _type_counts(ours for ours, _ in pairs),
        _type_counts(theirs for _, theirs in pairs),
    ]
    types = sorted(set().union(*counts, [_VERB]))
    rows = {name: _scores(*(of_types[name] for of_types in counts)) for name in types}
    verbs = rows.pop(_VERB)
    perfect = sum(all(each.type == _VERB for each in ours ^ theirs) for ours, theirs in pairs)
    return {
        **_scores(*(sum(of_types[name] for name in rows) for of_types in counts)),
        "perfect_propositions": perfect / max(len(pairs), 1),
        "propositions": len(pairs),
        "types": rows,
        _VERB: verbs,
    }


def arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments of a proposition, in the order of their first phrases.

    A phrase of type C-X continues the latest argument X before it. Without one, it is an X itself.
    R-X is a type of its own.

    Args:
        tags: BIO tags. I-X that follows another type or O begins a phrase.
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


def _type_counts(propositions: Iterable[set[Argument]]) -> Counter[str]:
    return Counter(each.type for proposition in propositions for each in proposition)


def _scores(correct: int, expected: int, predicted: int) -> dict:
    return {
        "precision": correct / max(predicted, 1),
        "recall": correct / max(expected, 1),
        "f1": 2 * correct / max(predicted + expected, 1),
        "arguments": expected,
    }
