"""Scores of coreference: MUC, B³ and CEAF-φ4, as the reference scorer of CoNLL counts them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.extras import require_extra

# Of one document: entities, each a collection of mentions, such as (first token, last token).
Entities = Iterable[Iterable[Hashable]]


class _Overlaps(NamedTuple):
    """The mentions that gold and predicted entities of one document share.

    shared: int (gold entity, predicted entity). Number of shared mentions, |k ∩ r|.
    gold: int (gold entity,). Number of mentions, |k|.
    predicted: int (predicted entity,). Number of mentions, |r|.
    """

    shared: np.ndarray
    gold: np.ndarray
    predicted: np.ndarray


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

    Args:
        gold: the entities of each document.
        predicted: the same for as many documents.

    Returns:
        "muc", "b_cubed" and "ceaf_e", each with "precision", "recall" and "f1", 0 to 1; and
        "average", the mean of the three F1.

    Raises:
        MissingExtraError: SciPy is not installed.

    Source: Vilain et al. 1995, Bagga and Baldwin 1998, Luo 2005; Pradhan et al. 2014 (version 8.01
    of the reference scorer).
    """
    documents = [
        _overlaps(_distinct(ours), _distinct(theirs))
        for ours, theirs in zip(gold, predicted, strict=True)
    ]
    scores = {
        "muc": _scores(_muc(document) for document in documents),
        "b_cubed": _scores(_b_cubed(document) for document in documents),
        "ceaf_e": _scores(_ceaf_e(document) for document in documents),
    }
    return {**scores, "average": sum(metric["f1"] for metric in scores.values()) / len(scores)}


def _distinct(entities: Entities) -> list[set[Hashable]]:
    """The entities without repeated mentions and without empty entities."""
    seen = set()
    distinct = []
    for entity in entities:
        mentions = set(entity) - seen
        seen |= mentions
        if mentions:
            distinct.append(mentions)
    return distinct


def _overlaps(gold: list[set[Hashable]], predicted: list[set[Hashable]]) -> _Overlaps:
    columns = {mention: column for column, entity in enumerate(predicted) for mention in entity}
    shared = np.zeros((len(gold), len(predicted)), int)
    for row, entity in enumerate(gold):
        for mention in entity & columns.keys():
            shared[row, columns[mention]] += 1
    return _Overlaps(shared, *(np.array([*map(len, side)], int) for side in (gold, predicted)))


# Each metric gives numerator and denominator of the recall, then those of the precision.


def _muc(document: _Overlaps) -> tuple[float, ...]:
    links = np.maximum(document.shared - 1, 0).sum()
    return links, (document.gold - 1).sum(), links, (document.predicted - 1).sum()


def _b_cubed(document: _Overlaps) -> tuple[float, ...]:
    squares = document.shared**2
    recalled = (squares / document.gold[:, None]).sum()
    precise = (squares / document.predicted).sum()
    return recalled, document.gold.sum(), precise, document.predicted.sum()


def _ceaf_e(document: _Overlaps) -> tuple[float, ...]:
    optimize = require_extra("scipy.optimize", "tasks", "The score of coreference")
    similarity = 2 * document.shared / (document.gold[:, None] + document.predicted)
    matched = similarity[optimize.linear_sum_assignment(similarity, maximize=True)].sum()
    return matched, len(document.gold), matched, len(document.predicted)


def _scores(documents: Iterable[tuple[float, ...]]) -> dict[str, float]:
    counts = np.reshape([*documents], (-1, 4)).sum(axis=0)
    recalled, gold, precise, predicted = map(float, counts)
    recall = recalled / gold if gold else 0.0
    precision = precise / predicted if predicted else 0.0
    total = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else 0.0,
    }
