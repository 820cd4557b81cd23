"""Scores of task models: spans by seqeval, labels by scikit-learn."""

import warnings
from collections.abc import Sequence

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
    # seqeval misreads a type that ends in a dash, so types are replaced by their indices.
    types = sorted({tag[2:] for tags in (*gold, *predicted) for tag in tags if tag != "O"})
    ids = {name: f"T{index}" for index, name in enumerate(types)}
    with warnings.catch_warnings():  # about types without a prediction
        warnings.simplefilter("ignore")
        report = metrics.classification_report(
            *(_with_ids(sentences, ids) for sentences in (gold, predicted)),
            output_dict=True,
            mode="strict",
            scheme=scheme,
            zero_division=0,
        )
    return {
        **_scores(*report["micro avg"].values()),
        "types": {name: _scores(*report[ids[name]].values()) for name in types},
    }


def tag_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Scores tags: "accuracy", the share of tokens with the correct tag; "tokens", their number.

    Args:
        gold: tags of each sentence.
        predicted: as many tags for each sentence.
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
    columns = metrics.precision_recall_fscore_support(
        gold, predicted, labels=labels, zero_division=0
    )
    rows = zip(labels, *columns, strict=True)
    return {
        "accuracy": _accuracy(gold, predicted),
        "macro_f1": float(columns[2].mean()),
        "examples": len(gold),
        "labels": {label: _scores(*row, name="examples") for label, *row in rows},
    }


def _with_ids(sentences: Sequence[Sequence[str]], ids: dict[str, str]) -> list[list[str]]:
    return [[tag if tag == "O" else tag[:2] + ids[tag[2:]] for tag in tags] for tags in sentences]


def _accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(gold, predicted, strict=True)) / max(len(gold), 1)


def _scores(precision: float, recall: float, f1: float, support: int, name: str = "spans") -> dict:
    scores = {"precision": float(precision), "recall": float(recall), "f1": float(f1)}
    return {**scores, name: int(support)}
