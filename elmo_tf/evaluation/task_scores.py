"""What is true and what a task model said ─► scores, by libraries that others use too."""

import warnings
from collections.abc import Sequence
from typing import Any

from elmo_tf.extras import require_extra

_EXTRA = "tasks"


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores of spans, right if both ends and the type are; by seqeval.

    Args:
        gold: tags of each sentence, "BIO".
        predicted: the same, of as many tokens.

    Returns:
        "precision", "recall" and "f1" of all spans together, of 1; "spans", how many are true; and
        "types", the same of each type.

    Raises:
        ValueError: not as many tags.
        MissingExtraError: seqeval is not installed.
    """
    metrics = require_extra("seqeval.metrics", _EXTRA, "The score of spans")
    scheme = require_extra("seqeval.scheme", _EXTRA, "The score of spans").IOB2
    _check_lengths(gold, predicted)
    # seqeval reads a type only in part if there is a dash at its end: it gets numbers.
    types = sorted({tag[2:] for tags in (*gold, *predicted) for tag in tags if tag != "O"})
    numbers = {name: f"T{number}" for number, name in enumerate(types)}
    with warnings.catch_warnings():  # of types that are nowhere predicted
        warnings.simplefilter("ignore")
        report = metrics.classification_report(
            *(_numbered(sentences, numbers) for sentences in (gold, predicted)),
            output_dict=True,
            mode="strict",
            scheme=scheme,
            zero_division=0,
        )
    return {
        **_scores(report["micro avg"]),
        "types": {name: _scores(report[numbers[name]]) for name in types},
    }


def tag_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """The share of tokens with the right tag, of 1: "accuracy"; and "tokens"; by scikit-learn.

    Args:
        gold: tags of each sentence.
        predicted: the same, of as many tokens.

    Raises:
        ValueError: not as many tags.
        MissingExtraError: scikit-learn is not installed.
    """
    _check_lengths(gold, predicted)
    flat = [[tag for tags in sentences for tag in tags] for sentences in (gold, predicted)]
    return {"accuracy": _accuracy(*flat), "tokens": len(flat[0])}


def label_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict:
    """Scores of one label each, of 1, by scikit-learn.

    Args:
        gold: the true labels.
        predicted: as many.

    Returns:
        "accuracy"; "macro_f1", the mean over labels; "examples"; and "labels", precision, recall
        and f1 of each.

    Raises:
        ValueError: not as many labels.
        MissingExtraError: scikit-learn is not installed.
    """
    _check_lengths(gold, predicted, is_nested=False)
    metrics = require_extra("sklearn.metrics", _EXTRA, "The score of labels")
    labels = sorted({*gold, *predicted})
    names = ("precision", "recall", "f1-score", "support")
    columns = metrics.precision_recall_fscore_support(
        gold, predicted, labels=labels, zero_division=0
    )
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return {
        "accuracy": _accuracy(gold, predicted),
        "macro_f1": float(columns[2].mean()),
        "examples": len(gold),
        "labels": {
            label: _scores(row, "examples") for label, row in zip(labels, rows, strict=True)
        },
    }


def _numbered(sentences: Sequence[Sequence[str]], numbers: dict[str, str]) -> list[list[str]]:
    """BIO with numbers in place of the types."""
    return [
        [tag if tag == "O" else f"{tag[:2]}{numbers[tag[2:]]}" for tag in tags]
        for tags in sentences
    ]


def _accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    metrics = require_extra("sklearn.metrics", _EXTRA, "The score of labels")
    return float(metrics.accuracy_score(gold, predicted))


def _scores(found: dict[str, Any], support: str = "spans") -> dict[str, Any]:
    return {
        "precision": float(found["precision"]),
        "recall": float(found["recall"]),
        "f1": float(found["f1-score"]),
        support: int(found["support"]),
    }


def _check_lengths(gold: Sequence, predicted: Sequence, is_nested: bool = True) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"There are {len(gold)} true labels and {len(predicted)} predicted ones.")
    if is_nested:
        for number, (one, other) in enumerate(zip(gold, predicted, strict=True)):
            if len(one) != len(other):
                raise ValueError(
                    f"Sentence {number} has {len(one)} true tags and {len(other)} predicted ones."
                )
