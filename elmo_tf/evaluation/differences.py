"""A file of vectors from an old pipeline, compared with what a model computes."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.difference_causes import ComparedSentence, Explanation, explain
from elmo_tf.evaluation.stored_vectors import OldVectors
from elmo_tf.models.bilm import BiLM
from elmo_tf.progress import progress_over

_MAX_LISTED = 10
_EXAMINED = 300  # sentences that are kept to find the causes of differences


def compare_vectors(
    old: OldVectors, bilm: BiLM, sentences: Iterable[Sequence[str]], tolerance: float = 1e-5
) -> dict[str, Any]:
    """Compares a file of vectors with those that a biLM computes.

    Args:
        old: the file, with all layers (layer, token, feature), or one of them (token, feature).
        bilm: the biLM.
        sentences: the sentences of the text from which the file was made.
        tolerance: largest difference at which vectors are equal.

    Returns:
        A dict: "equal"; "sentences", their number; "different", the number of sentences beyond the
        tolerance, and "first_different", the numbers of the first ten; "layers", for each layer of
        the file its "layer" in the biLM, and "largest", "mean" and "cosine" over the sentences of
        which both sides have the same number of tokens; and "causes", the likely causes of the
        differences, judged by the first 300 sentences.
    """
    sentences = [list(tokens) for tokens in sentences]
    arrays = Embedder(bilm).embed(sentences)
    arrays = progress_over(arrays, len(sentences), "embedding", "sentences")
    compared = (
        ComparedSentence(index, tokens, old.read(index, tokens), new)
        for index, (tokens, new) in enumerate(zip(sentences, arrays, strict=True))
    )
    examined = list(itertools.islice(compared, _EXAMINED))
    finite = [one for one in examined if one.old is not None and np.isfinite(one.old).all()]
    explanation = explain(finite, bilm, tolerance) if finite else Explanation([], False, [])
    different, missing, broken, sums = [], [], [], []
    for index, _, theirs, new in itertools.chain(examined, compared):
        if theirs is None:
            missing.append(index)
        elif not np.isfinite(theirs).all():
            broken.append(index)
        if (
            theirs is None
            or theirs.shape != new.shape
            or not np.all(np.abs(theirs - new) <= tolerance)
        ):
            different.append(index)
        if theirs is not None:
            theirs, ours = explanation.aligned(theirs, new)
            if ours.shape == theirs.shape and ours.size:
                sums.append(_sums(theirs, ours))
    causes = []
    if missing:
        causes.append(f"another text: the file has no vectors of sentence {missing[0]}")
    if old.num_unread:
        causes.append(f"another text: the file has {old.num_unread:,} more sentences")
    if broken:
        causes.append(f"NaN or infinite values: the first are in sentence {broken[0]}")
    if different:
        causes += explanation.causes
    if different and not causes:
        causes = [f"unknown: the first {len(examined)} sentences are equal"]
    names = explanation.layer_names(len(examined[0].new)) if examined else []
    return {
        "equal": not causes,
        "sentences": len(sentences),
        "different": len(different),
        "first_different": different[:_MAX_LISTED],
        "layers": [_layer(name, sums, row) for row, name in enumerate(names)],
        "causes": causes,
    }


def _sums(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Largest difference, sums of differences, number of values, cosines, tokens: (5, layer)."""
    difference = np.abs(old - new)  # (layer, token, feature)
    norms = np.linalg.norm(old, axis=-1) * np.linalg.norm(new, axis=-1)
    cosines = (old * new).sum(-1) / np.where(norms > 0, norms, 1)
    ones = np.ones(len(old))
    sums = difference.max((1, 2)), difference.sum((1, 2)), ones * difference[0].size
    return np.stack([*sums, cosines.sum(1), ones * old.shape[1]])


def _layer(name: str, sums: list[np.ndarray], row: int) -> dict[str, Any]:
    """The differences of a layer over all tokens; None instead of NaN and infinity."""
    largest, mean, cosine = 0.0, math.nan, math.nan
    if sums:
        values = np.stack(sums)[:, :, row].astype(float)  # (sentence, 5)
        _, differences, size, cosines, tokens = values.sum(axis=0)
        largest, mean, cosine = values[:, 0].max(), differences / size, cosines / tokens
    numbers = {"largest": largest, "mean": mean, "cosine": cosine}
    numbers = {key: float(v) if math.isfinite(v) else None for key, v in numbers.items()}
    return {"layer": name, **numbers}
