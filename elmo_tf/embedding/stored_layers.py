"""Sentences ─► the layers of a frozen biLM, computed once and stored in a memory-mapped file."""

import hashlib
import json
import math
import os
from collections.abc import Sequence

import numpy as np

from elmo_tf import __version__
from elmo_tf.checkpoints.named_models import cache_folder
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.vectors import check_all_layers
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.files import atomic_file
from elmo_tf.logs import progress_over

_LARGEST = float(np.finfo(np.float16).max)


class StoredLayers:
    """The layers of lists of tokens, float16, in a file of the cache, which is written if missing.

    Its name is a digest of all that it depends on, so it never has to be updated. It can be deleted
    at any time. `layers` is the mapped file, (layer, token, feature), with the tokens of all
    sentences.

    Raises `ValueError` if `embedder` does not return all layers, or vectors have no float16.
    """

    def __init__(self, embedder: Embedder, sentences: Sequence[Sequence[str]]):
        check_all_layers(embedder)
        self._offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)  # (sentence + 1,)
        shape = embedder.num_layers, int(self._offsets[-1]), embedder.dim
        path = cache_folder("layers") / f"{_digest(embedder, sentences)}.float16"
        size = max(1, 2 * math.prod(shape))  # an empty file cannot be mapped
        if not path.is_file() or path.stat().st_size != size:
            with atomic_file(path) as part, open(part, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error now
                layers = np.memmap(file, np.float16, "r+", 0, shape)
                self._compute(layers, embedder, sentences)
        self.layers = np.memmap(path, np.float16, "r", 0, shape)

    def sentence(self, index: int) -> np.ndarray:
        """All layers of one sentence, float16 (layer, token, feature)."""
        first, end = self._offsets[index : index + 2]
        return np.array(self.layers[:, first:end])

    def _compute(
        self, layers: np.memmap, embedder: Embedder, sentences: Sequence[Sequence[str]]
    ) -> None:
        arrays = embedder.embed(sentences)
        arrays = progress_over(arrays, len(sentences), "embedding", "sentences")
        for index, array in enumerate(arrays):  # (layer, token, feature)
            if not np.abs(array).max(initial=0) <= _LARGEST:
                raise ValueError(
                    f"Vectors of sentence {index} have NaN or values beyond float16 (65,504)."
                )
            first, end = self._offsets[index : index + 2]
            layers[:, first:end] = array


def _digest(embedder: Embedder, sentences: Sequence[Sequence[str]]) -> str:
    """A digest of everything that the layers depend on."""
    settings = embedder.settings()
    content = [__version__, settings["model"], settings["precision"]]
    digest = hashlib.sha256(json.dumps(content).encode())
    if isinstance(embedder, WordMeans):
        sentences = embedder.inputs(sentences)
    for sentence in sentences:
        digest.update(json.dumps(sentence).encode())
    return digest.hexdigest()
