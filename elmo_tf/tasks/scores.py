"""Scores of task models: spans by seqeval, tags and labels by scikit-learn."""

import warnings
from collections.abc import Sequence
from typing import Any

from elmo_tf.extras import require_extra


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores spans, which are correct if both ends and the type are.

    Args:
        gold: BIO tags of each sentence.
        predicted: as many tags for each sentence.

    Returns:
        "precision", "recall" and "f1" over all spans, 0 to 1; "spans", the number of gold spans;
        and "types", the same for each type.

    Raises:
        MissingExtraError: seqeval is not installed.
    """
    metrics = require_extra("seqeval.metrics", "tasks", "The score of spans")
    scheme = require_extra("seqeval.scheme", "tasks", "The score of spans").IOB2
    # seqeval misreads a type that ends in a dash, so types are replaced by numbers.
    types = sorted({tag[2:] for tags in (*gold, *predicted) for tag in tags if tag != "O"})
    numbers = {name: f"T{number}" for number, name in enumerate(types)}
    with warnings.catch_warnings():  # about types without a prediction
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
    """Scores tags: "accuracy", the share of tokens with the correct tag; "tokens", their number.

    Args:
        gold: tags of each sentence.
        predicted: as many tags for each sentence.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    flat = [[tag for tags in sentences for tag in tags] for sentences in (gold, predicted)]
    return {"accuracy": _accuracy(*flat), "tokens": len(flat[0])}


def label_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict:
    """Scores labels of examples.

    Args:
        gold: the gold label of each example.
        predicted: as many labels.

    Returns:
        "accuracy"; "macro_f1", the mean over labels; "examples", their number; and "labels", the
        precision, recall and F1 of each label.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    metrics = require_extra("sklearn.metrics", "tasks", "The score of labels")
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
    return [
        [tag if tag == "O" else f"{tag[:2]}{numbers[tag[2:]]}" for tag in tags]
        for tags in sentences
    ]


def _accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    metrics = require_extra("sklearn.metrics", "tasks", "The score of labels")
    return float(metrics.accuracy_score(gold, predicted))


def _scores(row: dict[str, Any], support: str = "spans") -> dict[str, Any]:
    return {
        "precision": float(row["precision"]),
        "recall": float(row["recall"]),
        "f1": float(row["f1-score"]),
        support: int(row["support"]),
    }
