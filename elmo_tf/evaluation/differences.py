"""A file of vectors from an old pipeline, compared with what a model computes."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import Any

import h5py
import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.models.bilm import BiLM
from elmo_tf.progress import progress_over

_MAX_LISTED = 10
_EXAMINED = 300  # sentences that are kept to find the cause of differences
# Rounding to float16 changes a value by at most this share.
_FLOAT16 = 2**-11


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
        self.largest = max(self.largest, float(difference.max()))
        self.total += float(difference.sum())
        self.num_values += difference.size
        self.cosines += float(((old * new).sum(-1) / np.where(norms > 0, norms, 1)).sum())
        self.num_tokens += len(old)

    def to_json(self) -> dict[str, float | None]:
        """Returns "largest", "mean" and "cosine"."""
        return {
            "largest": self.largest,
            "mean": self.total / self.num_values if self.num_values else None,
            "cosine": self.cosines / self.num_tokens if self.num_tokens else None,
        }


class NumberedVectors:
    """An HDF5 file with one dataset per sentence, named from 0.

    Args:
        path: the file, as written by `elmo-tf embed` or AllenNLP.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not HDF5.
    """

    def __init__(self, path: str | os.PathLike):
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no file {os.fspath(path)}.")
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise ValueError(f"Cannot open {os.fspath(path)} as HDF5: {error}") from None

    def __getitem__(self, number: int) -> np.ndarray | None:
        """The vectors of a sentence, float32 (layer, token, feature), or None."""
        dataset = self._file.get(str(number))
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim not in (2, 3):
            return None
        array = np.asarray(dataset[()], np.float32)
        return array.reshape(-1, *array.shape[-2:])


def compare_vectors(
    old: NumberedVectors,
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
        tolerance, and "first_different", the numbers of the first ten; "layers", for each layer
        "largest", "mean" and "cosine" over the sentences of which both sides have the same number
        of tokens; and, if they differ, "cause", the likely cause, judged by the first 300
        sentences.
    """
    sentences = [list(tokens) for tokens in sentences]
    layers: list[LayerDifference] = []
    different, examined = [], []
    arrays = progress_over(
        Embedder(bilm).embed(sentences), len(sentences), "embedding", "sentences"
    )
    for number, new in enumerate(arrays):
        stored = old[number]
        if len(examined) < _EXAMINED:
            examined.append((sentences[number], stored, new))
        if stored is not None and stored.shape[1:] == new.shape[1:]:
            layers += [LayerDifference() for _ in range(len(stored) - len(layers))]
            for layer, one, other in zip(layers, stored, new, strict=False):
                layer.add(one, other)
        if stored is None or not _are_near(stored, new, tolerance):
            different.append(number)
    found = {
        "equal": not different,
        "sentences": len(sentences),
        "different": len(different),
        "first_different": different[:_MAX_LISTED],
        "layers": [layer.to_json() for layer in layers],
    }
    return found if not different else {**found, "cause": _cause(examined, bilm, tolerance)}


# Tokens, vectors of the file and vectors of the biLM, for each sentence.
_Examined = list[tuple[list[str], np.ndarray | None, np.ndarray]]


def _cause(examined: _Examined, bilm: BiLM, tolerance: float) -> str:
    """The likely cause of the differences, as a part of a sentence."""
    for number, (_, old, _) in enumerate(examined):
        if old is None:
            return f"another text: the file has no vectors of sentence {number}"
    checks = (_other_order, _other_tokens, _other_layer, _rounding, _carried_state)
    for check in checks:
        if cause := check(examined, bilm, tolerance):
            return cause
    return "another model: not even layer 0, which has no context, is equal"


def _are_near(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= tolerance))


def _other_order(examined: _Examined, bilm: BiLM, tolerance: float) -> str | None:
    """The sentences of the file are those of the text in another order."""
    moved = [k for k, (_, old, new) in enumerate(examined) if not _are_near(old, new, tolerance)]
    places = {}
    for number in moved:
        old = examined[number][1]
        found = [k for k in moved if _are_near(old, examined[k][2], tolerance)]
        if found:
            places[number] = found[0]
    # Sentences may have moved from or to the part that is not examined.
    if not moved or len(places) < len(moved) / 2:
        return None
    number, place = next(iter(places.items()))
    return f"a different order: sentence {number} of the file is sentence {place} of the text"


def _other_tokens(examined: _Examined, bilm: BiLM, tolerance: float) -> str | None:
    for number, (tokens, old, new) in enumerate(examined):
        if old.shape[1] != new.shape[1]:
            return (
                f"different tokens: the file has {old.shape[1]} vectors for the {len(tokens)} "
                f"tokens of sentence {number}"
            )
        if old.shape[2] != new.shape[2]:
            return f"another model: vectors have {old.shape[2]} dimensions, not {new.shape[2]}"
    return None


def _other_layer(examined: _Examined, bilm: BiLM, tolerance: float) -> str | None:
    """The file holds one layer, the mean, or layers in another order."""
    candidates = {f"layer {k}": lambda new, k=k: new[k] for k in range(len(examined[0][2]))}
    candidates["the mean of all layers"] = lambda new: new.mean(axis=0)
    found = []
    for layer in range(min(len(old) for _, old, _ in examined)):
        for name, choose in candidates.items():
            if all(_are_near(old[layer], choose(new), tolerance) for _, old, new in examined):
                found.append(name)
                break
        else:
            return None
    return f"a different layer: the file holds {', '.join(found)}"


def _rounding(examined: _Examined, bilm: BiLM, tolerance: float) -> str | None:
    is_rounded = all(
        old.shape == new.shape and np.all(np.abs(old - new) <= _FLOAT16 * np.abs(new) + tolerance)
        for _, old, new in examined
    )
    return "float16: all differences are within its rounding" if is_rounded else None


def _carried_state(examined: _Examined, bilm: BiLM, tolerance: float) -> str | None:
    """The states of the LSTMs were carried from sentence to sentence, or from batch to batch."""
    if not all(_are_near(old[0], new[0], tolerance) for _, old, new in examined):
        return None
    carrying = BiLM.from_config({**bilm.get_config(), "stateful": True})
    carrying.set_weights(bilm.get_weights())
    for tokens, old, _ in examined:
        layers = np.asarray(carrying([tokens])["layers"][0], np.float32)
        if not _are_near(old, layers, tolerance):
            return (
                "carried state, probably in batches of several sentences: layer 0 is equal, the "
                "layers above are not"
            )
    return "carried state: each sentence begins with the LSTM states that the one before left"
