"""Scores of coreference: MUC, B³ and CEAF-φ4, as the reference scorer of CoNLL counts them."""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from elmo_tf.extras import require_extra

# Of one document: entities, each a collection of mentions, such as (first token, last token).
Entities = Iterable[Iterable[Hashable]]


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
    counts: dict[str, list[tuple[float, ...]]] = {"muc": [], "b_cubed": [], "ceaf_e": []}
    for ours, theirs in zip(gold, predicted, strict=True):
        overlaps = _overlaps(_distinct(ours), _distinct(theirs))
        for metric, count in (("muc", _muc), ("b_cubed", _b_cubed), ("ceaf_e", _ceaf_e)):
            counts[metric].append(count(*overlaps))
    scores = {metric: _scores(rows) for metric, rows in counts.items()}
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
    squares = shared**2
    recalled = (squares / gold[:, None]).sum()
    return recalled, gold.sum(), (squares / predicted).sum(), predicted.sum()


def _ceaf_e(shared: np.ndarray, gold: np.ndarray, predicted: np.ndarray) -> tuple[float, ...]:
    optimize = require_extra("scipy.optimize", "tasks", "The score of coreference")
    similarity = 2 * shared / (gold[:, None] + predicted)
    matched = similarity[optimize.linear_sum_assignment(similarity, maximize=True)].sum()
    return matched, len(gold), matched, len(predicted)


def _scores(rows: Iterable[tuple[float, ...]]) -> dict[str, float]:
    recalled, gold, precise, predicted = np.reshape([*rows], (-1, 4)).sum(axis=0).tolist()
    recall = recalled / gold if gold else 0.0
    precision = precise / predicted if predicted else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
