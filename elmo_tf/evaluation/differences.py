"""A file of vectors from an old pipeline, compared with what a model computes."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.difference_causes import (
    ComparedSentence,
    Explanation,
    explain,
    layer_name,
)
from elmo_tf.evaluation.old_vectors import OldVectors
from elmo_tf.models.bilm import BiLM
from elmo_tf.progress import progress_over

_MAX_LISTED = 10
_EXAMINED = 300  # sentences that are kept to find the causes of differences


@dataclasses.dataclass
class LayerDifference:
    """Differences of one layer over all tokens: the largest, the mean, and the mean cosine."""

    largest: float = 0.0
    total: float = 0.0
    cosines: float = 0.0
    num_tokens: int = 0
    num_values: int = 0

    def add(self, old: np.ndarray, new: np.ndarray) -> None:
        """Adds the vectors of a sentence, both (token, feature)."""
        if not old.size:
            return
        difference = np.abs(old - new)
        norms = np.linalg.norm(old, axis=-1) * np.linalg.norm(new, axis=-1)
        self.largest = float(np.maximum(self.largest, difference.max()))  # NaN remains
        self.total += float(difference.sum())
        self.num_values += difference.size
        self.cosines += float(((old * new).sum(-1) / np.where(norms > 0, norms, 1)).sum())
        self.num_tokens += len(old)

    def to_json(self) -> dict[str, float | None]:
        """Returns "largest", "mean" and "cosine"; None instead of NaN and infinity."""
        found = {
            "largest": self.largest,
            "mean": self.total / self.num_values if self.num_values else None,
            "cosine": self.cosines / self.num_tokens if self.num_tokens else None,
        }
        return {k: v if v is not None and math.isfinite(v) else None for k, v in found.items()}


def compare_vectors(
    old: OldVectors,
    bilm: BiLM,
    sentences: Iterable[Sequence[str]],
    tolerance: float = 1e-5,
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
    compared = _compared(old, bilm, sentences)
    examined = list(itertools.islice(compared, _EXAMINED))
    finite = [one for one in examined if one.old is not None and np.isfinite(one.old).all()]
    explanation = explain(finite, bilm, tolerance) if finite else Explanation([], False, [])
    differences = [LayerDifference() for _ in explanation.layers]
    different, missing, broken = [], [], []
    for one in itertools.chain(examined, compared):
        if one.old is None or not _are_near(one.old, one.new, tolerance):
            different.append(one.number)
        if one.old is None:
            missing.append(one.number)
            continue
        if not np.isfinite(one.old).all():
            broken.append(one.number)
        aligned = explanation.aligned(one.old, one.new)
        if aligned[0].shape == aligned[1].shape:
            for difference, *vectors in zip(differences, *aligned, strict=True):
                difference.add(*vectors)
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
    names = [layer_name(layer, len(examined[0].new)) for layer in explanation.layers]
    layers = zip(names, differences, strict=True)
    return {
        "equal": not causes,
        "sentences": len(sentences),
        "different": len(different),
        "first_different": different[:_MAX_LISTED],
        "layers": [{"layer": name, **one.to_json()} for name, one in layers],
        "causes": causes,
    }


def _compared(
    old: OldVectors, bilm: BiLM, sentences: list[list[str]]
) -> Iterator[ComparedSentence]:
    arrays = progress_over(
        Embedder(bilm).embed(sentences), len(sentences), "embedding", "sentences"
    )
    for number, (tokens, new) in enumerate(zip(sentences, arrays, strict=True)):
        yield ComparedSentence(number, tokens, old.read(number, tokens), new)


def _are_near(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= tolerance))
