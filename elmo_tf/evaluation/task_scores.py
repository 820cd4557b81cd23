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
    with warnings.catch_warnings():  # of types that are nowhere predicted
        warnings.simplefilter("ignore")
        report = metrics.classification_report(
            gold, predicted, output_dict=True, mode="strict", scheme=scheme, zero_division=0
        )
    averages = {name for name in report if name.endswith(" avg")}
    return {
        **_scores(report["micro avg"]),
        "types": {name: _scores(one) for name, one in report.items() if name not in averages},
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
    report = metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
    labels = sorted({*gold, *predicted})
    return {
        "accuracy": _accuracy(gold, predicted),
        "macro_f1": float(report["macro avg"]["f1-score"]),
        "examples": len(gold),
        "labels": {label: _scores(report[label], "examples") for label in labels},
    }


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
