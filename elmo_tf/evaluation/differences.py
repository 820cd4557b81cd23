"""A file of vectors from an old pipeline, compared with what a model computes.

The causes of differences are found by trying combinations of them.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.vector_output import unit_vectors
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
    rows = zip(sentences, arrays, identifiers or [None] * len(sentences), strict=True)
    compared = (
        _Compared(index, tokens, old.read(index, tokens, identifier), new)
        for index, (tokens, new, identifier) in enumerate(rows)
    )
    examined = list(itertools.islice(compared, _EXAMINED))
    finite = [one for one in examined if one.old is not None and np.isfinite(one.old).all()]
    is_pooled = _are_pooled(finite)
    view = functools.partial(_in_view, is_pooled=is_pooled)
    layers, explained = _explain(list(map(view, finite)), bilm, tolerance, is_pooled)
    different, missing, broken = [], [], []
    found = []  # largest and mean difference and cosine of each token, (3, layer, token)
    for index, _, theirs, new in map(view, itertools.chain(examined, compared)):
        if theirs is None:
            missing.append(index)
            different.append(index)
            continue
        if not np.isfinite(theirs).all():
            broken.append(index)
        is_same = not is_pooled and theirs.shape == new[:-2].shape
        if not is_same or not np.all(np.abs(theirs - new[:-2]) <= tolerance):
            different.append(index)
        if theirs.shape == new[layers].shape and theirs.size:
            away = np.abs(theirs - new[layers])  # (layer, token, feature)
            cosines = (unit_vectors(theirs) * unit_vectors(new[layers])).sum(-1)
            found.append(np.stack([away.max(-1), away.mean(-1), cosines]))
    causes = []
    if missing:
        causes.append(f"another text: the file has no vectors of sentence {missing[0]}")
    if old.num_unread:
        causes.append(f"another text: the file has {old.num_unread:,} more sentences")
    if broken:
        causes.append(f"NaN or infinite values: the first are in sentence {broken[0]}")
    if different:
        causes += explained
    if different and not causes:
        causes = [f"unknown: the first {len(examined)} sentences are equal"]
    names = _layer_names(layers, bilm)
    nothing = np.full((3, len(layers), 1), [[[0.0]], [[math.nan]], [[math.nan]]])
    found = np.concatenate(found or [nothing], axis=-1)
    return {
        "equal": not causes,
        "sentences": len(sentences),
        "different": len(different),
        "first_different": different[:_MAX_LISTED],
        "layers": [_layer(name, found[:, row]) for row, name in enumerate(names)],
        "causes": causes,
    }


def _layer(name: str, found: np.ndarray) -> dict[str, Any]:
    """The differences of a layer, (3, token); None instead of NaN and infinity."""
    numbers = {"largest": found[0].max(), "mean": found[1].mean(), "cosine": found[2].mean()}
    numbers = {key: float(v) if math.isfinite(v) else None for key, v in numbers.items()}
    return {"layer": name, **numbers}


class _Compared(NamedTuple):
    """A sentence and its vectors (layer, token, feature), in the file (or None) and by the biLM."""

    index: int
    tokens: list[str]
    old: np.ndarray | None
    new: np.ndarray


def _in_view(one: _Compared, is_pooled: bool) -> _Compared:
    """With the mean and the sum of all layers, and one token if the file has sentence means."""
    new = np.stack([*one.new, one.new.mean(axis=0), one.new.sum(axis=0)])
    if not is_pooled:
        return one._replace(new=new)
    new = new.sum(axis=1, keepdims=True) / max(1, new.shape[1])
    return one._replace(old=None if one.old is None else one.old.swapaxes(0, 1), new=new)


class _Fit(NamedTuple):
    """A combination of causes, and the vectors that are equal under it."""

    batch_size: int  # of the batches from which states are carried; 0 if they are not
    precision: str  # a key of `_ROUNDING`
    layers: list[int]  # of the biLM, for each layer of the file; see `_layer_names`
    equal: list[np.ndarray]  # bool (layer of the file, token) for each sentence

    @property
    def num_equal(self) -> int:
        return sum(int(one.sum()) for one in self.equal)

    @property
    def num_leading(self) -> int:
        """Number of sentences before the first with another vector."""
        return len(list(itertools.takewhile(np.all, self.equal)))


def _explain(
    sentences: Sequence[_Compared], bilm: BiLM, tolerance: float, is_pooled: bool
) -> tuple[list[int], list[str]]:
    """Finds the combination of causes under which most vectors of a file are equal.

    The causes are carried LSTM states, other layers and another precision. If vectors remain, other
    tokens or another model are the cause. Returns the layers (see `_Fit`) and the causes.
    """
    if not sentences:
        return [], []
    for one in sentences:
        if one.old.shape[2] != one.new.shape[2]:
            dims = f"{one.old.shape[2]} dimensions, not {one.new.shape[2]}"
            return [], [f"another model: vectors have {dims}"]
    carried = functools.cache(functools.partial(_carried, sentences, bilm, is_pooled))
    stored = _precision([one.old for one in sentences])
    best = None
    # A float32 file may have been computed in a lower precision. The tolerance for that also
    # accepts vectors that differ for other reasons, so only a complete fit counts.
    for precision in (stored, "float16", "bfloat16") if stored == "float32" else (stored,):
        fits = [_fit(sentences, 0, precision, tolerance)]
        # The first batch begins with zeros even if states are carried: if its vectors differ,
        # states are not the cause. Empty sentences are always equal.
        leading = fits[0].num_leading
        sizes = sorted({1, leading}) if 0 < leading < len(sentences) else ()
        fits += [_fit(carried(size), size, precision, tolerance) for size in sizes]
        fit = max(fits, key=lambda fit: fit.num_equal)
        best = fit if best is None or fit.num_leading == len(sentences) else best
        if best.num_leading == len(sentences):
            break
    causes = []
    if best.layers != list(range(bilm.config.lstm.num_layers + 1)) and best.num_equal:
        names = ", ".join(_layer_names(best.layers, bilm))
        causes.append(f"a different layer: the file holds {names}")
    if is_pooled:
        causes.append("sentence means: the file has one vector per sentence")
    if best.batch_size:
        causes.append(
            f"carried state, batch size {best.batch_size}: a sentence begins with the last LSTM "
            f"states of the sentence {best.batch_size} before it"
        )
    if best.precision != "float32":
        causes.append(f"{best.precision}: differences are within its rounding")
    if best.num_leading < len(sentences):
        causes.append(_remaining_cause(best, sentences, is_pooled))
    return best.layers, causes


def _fit(sentences: Sequence[_Compared], batch_size: int, precision: str, tolerance: float) -> _Fit:
    """Chooses the layers under which most vectors are equal."""
    num_layers = len(sentences[0].old)
    equal = []  # bool (layer of the file, layer, token)
    for _, _, old, new in sentences:
        if old.shape[:2] == (num_layers, new.shape[1]):
            limit = _ROUNDING[precision] * np.abs(new) + tolerance
            equal.append(np.stack([np.all(np.abs(layer - new) <= limit, axis=-1) for layer in old]))
        else:
            equal.append(np.zeros((num_layers, len(new), max(1, old.shape[1])), bool))
    counts = sum(one.sum(axis=-1) for one in equal)  # (layer of the file, layer)
    counts = 2 * counts + np.eye(*counts.shape, dtype=int)  # of equal counts, the same layer
    layers = counts.argmax(axis=1).tolist()
    return _Fit(batch_size, precision, layers, [one[range(num_layers), layers] for one in equal])


def _carried(
    sentences: Sequence[_Compared], bilm: BiLM, is_pooled: bool, batch_size: int
) -> list[_Compared]:
    """The sentences by the biLM with states that are carried from batch to batch."""
    stateful = BiLM.from_config({**bilm.get_config(), "stateful": True})
    stateful.set_weights(bilm.get_weights())
    carried = []
    for start in range(0, len(sentences), batch_size):
        batch = sentences[start : start + batch_size]
        layers = np.asarray(stateful([one.tokens for one in batch])["layers"], np.float32)
        for one, row in zip(batch, layers, strict=True):
            new = _in_view(one._replace(new=row[:, : len(one.tokens)]), is_pooled).new
            carried.append(one._replace(new=new))
    return carried


def _remaining_cause(fit: _Fit, sentences: Sequence[_Compared], is_pooled: bool) -> str:
    pairs = zip(sentences, fit.equal, strict=True)
    (index, words, old, new), equal = next(pair for pair in pairs if not pair[1].all())
    tokens = "different tokens, or sentences in another order: "
    if old.shape[1] != new.shape[1]:
        counts = f"{old.shape[1]} vectors for the {new.shape[1]} tokens"
        return f"{tokens}the file has {counts} of sentence {index}"
    if not fit.num_equal:
        return "another model, or sentences in another order: no vector of the file is equal"
    if 0 not in fit.layers or is_pooled:
        return f"{tokens}the first are in sentence {index}"
    layer_0 = equal[fit.layers.index(0)]
    if layer_0.all():
        where = f"layer 0 of sentence {index} is equal, the layers above it are not"
        return f"other states or weights of the LSTMs: {where}"
    place = int(layer_0.argmin())
    where = f"token {place} of sentence {index}"
    return f"{tokens}the first is {where}, which is {words[place]!r} in the text"


def _layer_names(layers: list[int], bilm: BiLM) -> list[str]:
    """The names of layers; after the last one, those of the mean and the sum of all layers."""
    names = [f"layer {k}" for k in range(bilm.config.lstm.num_layers + 1)]
    names += ["the mean of all layers", "the sum of all layers"]
    return [names[k] for k in layers]


def _are_pooled(sentences: Sequence[_Compared]) -> bool:
    """Whether a file has one vector per sentence: (feature,), or (layer, feature)."""
    shapes = {one.old.shape[:2] for one in sentences}
    is_one_each = shapes in ({(1, 1)}, {(1, len(one.new)) for one in sentences})
    return is_one_each and any(one.old.shape[1] != len(one.tokens) for one in sentences)


def _precision(arrays: Sequence[np.ndarray]) -> str:
    """The format to which all values are rounded; bfloat16 first, as float16 holds most of them."""
    # bfloat16 is the upper half of float32.
    if not any((np.ascontiguousarray(a).view(np.uint32) & 0xFFFF).any() for a in arrays):
        return "bfloat16"
    with np.errstate(over="ignore"):
        is_float16 = all(np.array_equal(one.astype(np.float16), one) for one in arrays)
    return "float16" if is_float16 else "float32"
