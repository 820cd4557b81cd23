"""A file of vectors from an old pipeline, compared with what a model computes.

The causes of differences are found by trying combinations of them.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.stored_vectors import OldVectors
from elmo_tf.models.bilm import BiLM
from elmo_tf.progress import progress_over

_MAX_LISTED = 10
_EXAMINED = 300  # sentences that are kept to find the causes of differences
# Largest relative rounding errors.
_ROUNDING = {"float32": 0.0, "float16": 2**-11, "bfloat16": 2**-8}


def compare_vectors(
    old: OldVectors,
    bilm: BiLM,
    sentences: Iterable[Sequence[str]],
    tolerance: float = 1e-5,
    identifiers: Sequence[str | None] | None = None,
) -> dict[str, Any]:
    """Compares a file of vectors with those that a biLM computes.

    Args:
        old: the file, with all layers (layer, token, feature), or one of them (token, feature).
        bilm: the biLM.
        sentences: the sentences of the text from which the file was made.
        tolerance: largest difference at which vectors are equal.
        identifiers: those of the sentences, if the text is FASTA.

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
        _ComparedSentence(index, tokens, old.read(index, tokens, identifier), new)
        for index, (tokens, new, identifier) in enumerate(
            zip(sentences, arrays, identifiers or [None] * len(sentences), strict=True)
        )
    )
    examined = list(itertools.islice(compared, _EXAMINED))
    finite = [one for one in examined if one.old is not None and np.isfinite(one.old).all()]
    explanation = _explain(finite, bilm, tolerance) if finite else _Explanation([], False, [])
    different, missing, broken, sums = [], [], [], []
    for index, _, theirs, new in itertools.chain(examined, compared):
        if theirs is None:
            missing.append(index)
            different.append(index)
            continue
        if not np.isfinite(theirs).all():
            broken.append(index)
        if theirs.shape != new.shape or not np.all(np.abs(theirs - new) <= tolerance):
            different.append(index)
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


class _ComparedSentence(NamedTuple):
    """A sentence and its vectors (layer, token, feature), in the file (or None) and by the biLM."""

    index: int
    tokens: list[str]
    old: np.ndarray | None
    new: np.ndarray


class _Explanation(NamedTuple):
    """The layers that a file holds, and the causes of its differences."""

    # The layer of the biLM for each layer of the file; after the last one, the mean and the sum
    # of all layers.
    layers: list[int]
    is_pooled: bool  # the file has one vector per sentence, the mean over its tokens
    causes: list[str]

    def aligned(self, old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of a sentence, both (layer, token, feature) with the layers of the file."""
        return _view_of_old(old, self.is_pooled), _view_of_new(new, self.is_pooled)[self.layers]

    def layer_names(self, num_layers: int) -> list[str]:
        """The names of the layers, of a biLM with `num_layers` layers, 0 included."""
        names = [f"layer {k}" for k in range(num_layers)]
        names += ["the mean of all layers", "the sum of all layers"]
        return [names[k] for k in self.layers]


class _Fit(NamedTuple):
    """A combination of causes, and the vectors that are equal under it."""

    pairs: list[tuple[int, int]]  # the places of a sentence in the file and in the text
    batch_size: int  # of the batches from which states are carried; 0 if they are not
    precision: str  # a key of `_ROUNDING`
    layers: list[int]  # see `_Explanation`
    equal: list[np.ndarray]  # bool (layer, token) for each pair

    @property
    def num_equal(self) -> int:
        return sum(int(one.sum()) for one in self.equal)

    @property
    def num_leading(self) -> int:
        """Number of sentences before the first with another vector."""
        return len(list(itertools.takewhile(np.all, self.equal)))

    @property
    def is_complete(self) -> bool:
        return self.num_leading == len(self.equal)


def _explain(sentences: Sequence[_ComparedSentence], bilm: BiLM, tolerance: float) -> _Explanation:
    """Finds the combination of causes under which most vectors of a file are equal.

    The causes are another order of the sentences, carried LSTM states, other layers and another
    precision. If vectors remain, other tokens or another model are the cause. The sentences are the
    first ones of the text; `tolerance` is the largest difference of equal vectors.
    """
    for one in sentences:
        if one.old.shape[2] != one.new.shape[2]:
            dims = f"{one.old.shape[2]} dimensions, not {one.new.shape[2]}"
            return _Explanation([], False, [f"another model: vectors have {dims}"])
    search = _Search(sentences, bilm, tolerance)
    stored = _precision([one.old for one in sentences])
    # A float32 file may have been computed in a lower precision. The tolerance for that also
    # accepts vectors that differ for other reasons, so only a complete fit counts.
    lower = ("float16", "bfloat16") if stored == "float32" else ()
    best = None
    for fit in itertools.chain.from_iterable(map(search.fits, (stored, *lower))):
        is_better = best is None or fit.num_equal > best.num_equal
        if fit.is_complete or (fit.precision == stored and is_better):
            best = fit
        if fit.is_complete:
            break
    return _Explanation(best.layers, search.is_pooled, search.causes(best))


class _Search:
    """The arguments of `_explain`, with all vectors in the view of the file."""

    def __init__(self, sentences: Sequence[_ComparedSentence], bilm: BiLM, tolerance: float):
        self._sentences = sentences
        self._bilm = bilm
        self._tolerance = tolerance
        self.is_pooled = _are_pooled(sentences)
        self._carried = functools.cache(self._carry)
        self._olds = [_view_of_old(one.old, self.is_pooled) for one in sentences]
        self._news = [_view_of_new(one.new, self.is_pooled) for one in sentences]

    def fits(self, precision: str) -> Iterator[_Fit]:
        """The combinations of order and state, simple ones first."""
        fresh = [self._fit([(k, k) for k in range(len(self._olds))], 0, precision)]
        yield fresh[0]
        if moved := self._moved(fresh[0]):
            fresh.append(self._fit(moved, 0, precision))
            yield fresh[1]
        for fit in fresh:
            # The first batch begins with zeros even if states are carried: if its vectors differ,
            # states are not the cause. Empty sentences are always equal.
            for batch_size in sorted({1, fit.num_leading} if fit.num_leading else ()):
                yield self._fit(fit.pairs, batch_size, precision)

    def _fit(self, pairs: list[tuple[int, int]], batch_size: int, precision: str) -> _Fit:
        """Chooses the layers under which most vectors are equal."""
        texts = tuple(text for _, text in pairs)
        news = self._carried(texts, batch_size) if batch_size else [self._news[k] for k in texts]
        equal = [
            self._equal(self._olds[file], new, precision)
            for (file, _), new in zip(pairs, news, strict=True)
        ]
        counts = sum(one.sum(axis=-1) for one in equal)  # (layer of the file, layer)
        counts = 2 * counts + np.eye(*counts.shape, dtype=int)  # of equal counts, the same layer
        layers = counts.argmax(axis=1).tolist()
        equal = [one[np.arange(len(layers)), layers] for one in equal]
        return _Fit(pairs, batch_size, precision, layers, equal)

    def _equal(self, old: np.ndarray, new: np.ndarray, precision: str) -> np.ndarray:
        """Whether vectors are equal: bool (layer of the file, layer, token)."""
        shape = len(self._olds[0]), len(new), old.shape[1]
        if old.shape[:2] != (shape[0], new.shape[1]):
            return np.zeros((*shape[:2], max(1, shape[2])), bool)
        limit = _ROUNDING[precision] * np.abs(new) + self._tolerance
        return np.stack([np.all(np.abs(layer - new) <= limit, axis=-1) for layer in old])

    def _moved(self, fit: _Fit) -> list[tuple[int, int]] | None:
        """The pairs if at least half of the differing sentences are elsewhere in the text.

        The others may be beyond the sentences that are examined. Only layer 0 of the file is
        compared.
        """
        wrong = [k for k, equal in enumerate(fit.equal) if not equal.all()]
        free, pairs = list(wrong), []
        for file in wrong:
            for text in free:
                equal = self._equal(self._olds[file], self._news[text], fit.precision)
                if equal[0].all(axis=-1).any():
                    pairs.append((file, text))
                    free.remove(text)
                    break
        if all(file == text for file, text in pairs) or len(pairs) < len(wrong) / 2:
            return None
        return sorted(pairs + [(k, k) for k in range(len(self._olds)) if k not in wrong])

    def _carry(self, texts: tuple[int, ...], batch_size: int) -> list[np.ndarray]:
        """The vectors of sentences, with states that are carried from batch to batch."""
        bilm = BiLM.from_config({**self._bilm.get_config(), "stateful": True})
        bilm.set_weights(self._bilm.get_weights())
        arrays = []
        for start in range(0, len(texts), batch_size):
            sentences = [self._sentences[k].tokens for k in texts[start : start + batch_size]]
            layers = np.asarray(bilm(sentences)["layers"], np.float32)
            arrays += [row[:, : len(one)] for row, one in zip(layers, sentences, strict=True)]
        return [_view_of_new(array, self.is_pooled) for array in arrays]

    def causes(self, fit: _Fit) -> list[str]:
        """The causes that a fit combines, and the cause of the differences that it leaves."""
        causes = []
        num_layers = len(self._news[0]) - 2
        if fit.layers != list(range(num_layers)) and fit.num_equal:
            names = _Explanation(fit.layers, self.is_pooled, []).layer_names(num_layers)
            causes.append(f"a different layer: the file holds {', '.join(names)}")
        if self.is_pooled:
            causes.append("sentence means: the file has one vector per sentence")
        for file, text in [pair for pair in fit.pairs if pair[0] != pair[1]][:1]:
            one, other = self._sentences[file].index, self._sentences[text].index
            causes.append(
                f"a different order: sentence {one} of the file is sentence {other} of the text"
            )
        if fit.batch_size == 1:
            causes.append(
                "carried state: each sentence begins with the last LSTM states of the one before"
            )
        elif fit.batch_size:
            causes.append(
                f"carried state in batches of {fit.batch_size} sentences: each begins with the "
                "LSTM states of its row in the batch before"
            )
        if fit.precision != "float32":
            causes.append(f"{fit.precision}: differences are within its rounding")
        return causes if fit.is_complete else [*causes, self._remaining_cause(fit)]

    def _remaining_cause(self, fit: _Fit) -> str:
        rest = [
            (self._sentences[text], self._olds[file].shape[1], self._news[text].shape[1], equal)
            for (file, text), equal in zip(fit.pairs, fit.equal, strict=True)
            if not equal.all()
        ]
        for sentence, old, new, _ in rest:
            if old != new:
                return (
                    f"different tokens: the file has {old} vectors for the {new} tokens of "
                    f"sentence {sentence.index}"
                )
        if not fit.num_equal:
            return "another model: no vector of the file is equal"
        if 0 not in fit.layers or self.is_pooled:
            return f"different tokens: the first are in sentence {rest[0][0].index}"
        for sentence, *_, equal in rest:
            layer_0 = equal[fit.layers.index(0)]
            if not layer_0.all():
                place = int(layer_0.argmin())
                return (
                    f"different tokens: the first is token {place} of sentence {sentence.index}, "
                    f"which is {sentence.tokens[place]!r} in the text"
                )
        return "other states or weights of the LSTMs: layer 0 is equal, the layers above it are not"


def _are_pooled(sentences: Sequence[_ComparedSentence]) -> bool:
    """Whether a file has one vector per sentence: (feature,), or (layer, feature)."""
    shapes = {one.old.shape[:2] for one in sentences}
    is_one_each = shapes == {(1, 1)} or shapes == {(1, len(sentences[0].new))}
    return is_one_each and any(one.old.shape[1] != len(one.tokens) for one in sentences)


def _view_of_old(old: np.ndarray, is_pooled: bool) -> np.ndarray:
    """The vectors of a file as (layer, token, feature)."""
    return old.swapaxes(0, 1) if is_pooled else old


def _view_of_new(new: np.ndarray, is_pooled: bool) -> np.ndarray:
    """Layers, their mean and their sum: (layer, token, feature) → (layer + 2, token, feature)."""
    new = np.stack([*new, new.mean(axis=0), new.sum(axis=0)])
    return new.sum(axis=1, keepdims=True) / max(1, new.shape[1]) if is_pooled else new


def _precision(arrays: Sequence[np.ndarray]) -> str:
    """The format to which all values are rounded; bfloat16 first, as float16 holds most of them."""
    # bfloat16 is the upper half of float32.
    if not any((np.ascontiguousarray(a).view(np.uint32) & 0xFFFF).any() for a in arrays):
        return "bfloat16"
    with np.errstate(over="ignore"):
        is_float16 = all(np.array_equal(one.astype(np.float16), one) for one in arrays)
    return "float16" if is_float16 else "float32"
