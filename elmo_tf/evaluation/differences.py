"""Compares a file of vectors from an old pipeline with what a model computes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.evaluation.stored_vectors import Stored, key_of
from elmo_tf.logs import progress_over
from elmo_tf.text.sentence_files import FileSentence


def compare_vectors(
    old: Stored,
    embedder: Embedder,
    sentences: Sequence[FileSentence],
    tolerance: float = 1e-5,
) -> dict[str, Any]:
    """Compares a file of vectors with those that an `Embedder` computes.

    Args:
        old: the file.
        embedder: returns the layers that the file has.
        sentences: the sentences of the text from which the file was made.
        tolerance: largest difference at which vectors are equal.

    Returns:
        A dict: "equal"; "sentences", their number; "different", the number of sentences whose
        vectors differ; "first_different", the number, the text and the kind of difference of the
        first of them, or None; "more_in_file", the number of sentences of the file that are not in
        the text; and "layers", for each layer its number, and the "largest" difference and the mean
        "cosine" of its vectors, if any can be compared (None if they are not finite).
    """
    arrays = embedder.embed([sentence.tokens for sentence in sentences])
    arrays = progress_over(arrays, len(sentences), "embedding", "sentences")
    texts = {place: text for text, place in old.texts.items()}
    unread = set((old.numbers or old.texts).values())
    num_different, first = 0, None
    found = [np.zeros((2, embedder.num_layers if embedder.layers == "all" else 1, 0))]
    for index, (sentence, new) in enumerate(zip(sentences, arrays, strict=True)):
        place = _place(old, index, sentence)
        unread.discard(place)
        theirs = None if place is None else _with_layers(old.read(place)[()])
        new = _with_layers(new)
        text = key_of(sentence.identifier or " ".join(sentence.tokens))
        difference = _difference(theirs, new, sentence.tokens, tolerance)
        if difference and texts.get(place, text) != text:
            difference = (
                f"other tokens, or another order: the file has the sentence {texts[place]!r}"
            )
        if difference:
            num_different += 1
            first = first or {"sentence": index, "text": text, "difference": difference}
        if theirs is not None and theirs.shape == new.shape:
            away = np.abs(theirs - new).max(axis=-1)
            cosines = (unit_vectors(theirs) * unit_vectors(new)).sum(axis=-1)
            found.append(np.stack([away, cosines]))  # (2, layer, token)
    layers = []
    for layer, (away, near) in enumerate(np.concatenate(found, axis=-1).swapaxes(0, 1)):
        numbers = {"largest": away.max(), "cosine": near.mean()} if away.size else {}
        layers.append({"layer": layer, **{key: _finite(one) for key, one in numbers.items()}})
    return {
        "equal": not num_different and not unread,
        "sentences": len(sentences),
        "different": num_different,
        "first_different": first,
        "more_in_file": len(unread),
        "layers": layers,
    }


def _place(old: Stored, index: int, sentence: FileSentence) -> Any:
    """Where the file has the vectors of a sentence, or None."""
    if sentence.identifier is None and old.numbers:
        return old.numbers.get(index)
    text = key_of(sentence.identifier or " ".join(sentence.tokens))
    # Of a text that is not a valid name, HDF5 files have the number.
    names = (name for name in (text, f"line {index}") if name in old.texts)
    return old.texts.get(next(names, None), old.numbers.get(index))


def _difference(
    old: np.ndarray | None, new: np.ndarray, tokens: Sequence[str], tolerance: float
) -> str | None:
    """Describes how the vectors of a sentence differ; None if they are equal."""
    if old is None:
        return "other tokens, or another order: the file does not have the sentence"
    if (old.shape[0], old.shape[2]) != (new.shape[0], new.shape[2]):
        sizes = (f"{layers} layers of {dim} numbers" for layers, _, dim in (old.shape, new.shape))
        return f"other layers or another model: {', not '.join(sizes)}"
    if old.shape != new.shape:
        return f"other tokens: {old.shape[1]} vectors for {len(tokens)} tokens"
    is_equal = np.all(np.abs(old - new) <= tolerance, axis=-1)  # (layer, token), False for NaN
    if is_equal.all():
        return None
    layer, token = np.argwhere(~is_equal)[0]  # the first layer
    where = f"token {token}, {tokens[token]!r}, in layer {layer}"
    if layer == 0 and len(new) > 1:
        where += ", where context has no effect: other tokens, another order or another model"
    return where


def _with_layers(vectors: np.ndarray) -> np.ndarray:
    """One layer, or one vector of a sentence, as float32 (layer, token, feature)."""
    return np.asarray(vectors, np.float32)[(None,) * (3 - vectors.ndim)]


def _finite(number: np.floating) -> float | None:
    """A number for JSON; None for NaN and infinity."""
    return float(number) if math.isfinite(number) else None
