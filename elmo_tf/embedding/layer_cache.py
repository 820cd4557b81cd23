"""Sentences ─► their layers, computed once and cached on disk."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import platformdirs
from absl import logging
from filelock import FileLock, Timeout

from elmo_tf import __version__
from elmo_tf.config_checks import check_int
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.files import naming_full_disk, refuse_unwritable
from elmo_tf.progress import progress_over
from elmo_tf.text.reading import encode

_LARGEST = float(np.finfo(np.float16).max)
# Complete and unfinished entries. Other files in the folder are never removed.
_ENTRY, _PART = ".float16", ".float16.part"

Sentences = Sequence[Sequence[str]]


def default_cache_folder() -> Path:
    """Returns `~/.cache/elmo_tf/layers`, or `$XDG_CACHE_HOME/elmo_tf/layers` if that is set."""
    try:
        # Some versions of platformdirs return a "~" if there is no home folder.
        return Path(platformdirs.user_cache_dir("elmo_tf"), "layers").expanduser()
    except RuntimeError:
        raise RuntimeError(
            "There is no home folder for the layer cache: set XDG_CACHE_HOME to an absolute path, "
            "name a folder (folder, --cache), or disable the cache (max_bytes=0, --no-cache)."
        ) from None


class StoredLayers:
    """The layers of sentences in a file, which stay readable if the file is removed."""

    def __init__(self, embedder: Embedder, sentences: Sentences):
        self.offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        """int64 (sentence + 1,): sentence k has the tokens `offsets[k]` to `offsets[k + 1]`."""
        self.shape = embedder.num_layers, int(self.offsets[-1]), embedder.dim
        self._layers = np.zeros((embedder.num_layers, 0, embedder.dim), np.float16)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return 2 * self.shape[0] * self.shape[1] * self.shape[2]

    def open(self, file: BinaryIO) -> None:
        """Opens a file, float16 (layer, token, feature), or raises `ValueError` for its size."""
        size = os.fstat(file.fileno()).st_size
        if size != self.num_bytes:
            raise ValueError(f"{file.name} has {size:,} bytes instead of {self.num_bytes:,}.")
        if size:  # an empty file cannot be mapped
            self._layers = np.memmap(file, np.float16, "r", 0, self.shape)

    def layer(self, index: int) -> np.ndarray:
        """One layer of all tokens, float16 (token, feature), memory-mapped."""
        return self._layers[index]

    def sentence(self, index: int) -> np.ndarray:
        """All layers of one sentence, float16 (layer, token, feature)."""
        first, end = self.offsets[index : index + 2]
        return np.array(self._layers[:, first:end])


class LayerCache:
    """A folder that caches the layers of sentences in float16.

    The cache key is a digest of the model weights, the precision, the tokens and the version of
    elmo_tf. An entry is complete or absent, even if a process is killed. Several processes can
    share the folder: if one computes an entry, the others wait for it.

    Args:
        folder: the cache folder, created if necessary. None is `default_cache_folder()`.
        max_bytes: int >= 0. Maximum size of the folder; the least recently used entries are removed
            first. Layers larger than this are computed on every use, into temporary files. 0
            disables the cache. Defaults to 20 GiB.

    Raises:
        OSError: the folder is not writable.
    """

    def __init__(self, folder: str | os.PathLike | None = None, max_bytes: int = 20 * 2**30):
        check_int(max_bytes, "max_bytes", ge=0)
        self._max_bytes = max_bytes
        if not max_bytes:
            folder = tempfile.gettempdir()
        self._folder = default_cache_folder() if folder is None else Path(folder)
        refuse_unwritable(self._folder / _ENTRY)

    def has_room(self, embedder: Embedder, sentences: Sentences) -> bool:
        """Whether the layers of the sentences fit into the cache; see `layers`."""
        return StoredLayers(embedder, sentences).num_bytes <= self._max_bytes

    @contextlib.contextmanager
    def layers(self, embedder: Embedder, sentences: Sentences) -> Iterator[StoredLayers]:
        """Context manager that yields the layers of all sentences, lists of tokens.

        Raises:
            TypeError: a sentence is a string.
            ValueError: `embedder` does not return all layers, or vectors are not finite.
            OSError: the disk is full, or the folder is not writable.
        """
        check_all_layers(embedder)
        for sentence in sentences:
            if isinstance(sentence, str | bytes):
                raise TypeError(f"A sentence must be a list of tokens. Received: {sentence!r}")
        self._folder.mkdir(parents=True, exist_ok=True)
        layers = StoredLayers(embedder, sentences)
        with naming_full_disk(self._folder):
            if self._max_bytes and layers.num_bytes <= self._max_bytes:
                self._open_or_compute(layers, embedder, sentences)
            else:
                if self._max_bytes:
                    logging.warning("The layers are larger than the cache, and are not stored.")
                with tempfile.TemporaryFile(dir=self._folder) as file:
                    _compute(layers, file, embedder, sentences)
        yield layers

    def _open_or_compute(
        self, layers: StoredLayers, embedder: Embedder, sentences: Sentences
    ) -> None:
        key = _key(embedder, sentences)
        entry, part = self._folder / (key + _ENTRY), self._folder / (key + _PART)
        with self._lock(key):  # waits for another process that computes the same layers
            with contextlib.suppress(FileNotFoundError), open(entry, "rb") as file:
                os.utime(entry)  # the time of its last use
                try:
                    layers.open(file)
                    return
                except ValueError as error:
                    logging.warning("Cached layers are damaged and are computed again: %s", error)
            try:
                with open(part, "w+b") as file:
                    with self._lock("all"):
                        file.truncate(layers.num_bytes)  # for the sum in other processes
                        self._remove_oldest()
                    _compute(layers, file, embedder, sentences)
                    os.fsync(file.fileno())
                    os.replace(part, entry)
            finally:
                part.unlink(missing_ok=True)

    def _lock(self, key: str, blocking: bool = True) -> FileLock:
        return FileLock(self._folder / f"{key}.lock", blocking=blocking)

    def _remove_oldest(self) -> None:
        """Removes entries of killed processes, and the least recently used ones."""
        for part in self._folder.glob(f"*{_PART}"):
            lock = self._lock(part.name.removesuffix(_PART), blocking=False)
            with contextlib.suppress(Timeout), lock:
                part.unlink(missing_ok=True)
        states = {}
        for path in self._folder.glob(f"*{_ENTRY}*"):
            with contextlib.suppress(FileNotFoundError):  # another process may rename it
                states[path] = path.stat()
        excess = sum(state.st_size for state in states.values()) - self._max_bytes
        for path in sorted(states, key=lambda path: states[path].st_mtime_ns):
            if excess > 0 and path.suffix == _ENTRY:
                path.unlink()
                excess -= states[path].st_size


def _key(embedder: Embedder, sentences: Sentences) -> str:
    """A digest of everything that the layers depend on."""
    settings = embedder.settings()
    content = [__version__, settings["model"], settings["precision"]]
    digest = hashlib.sha256(json.dumps(content).encode())
    for sentence in sentences:
        digest.update(len(sentence).to_bytes(8, "little"))
        for token in map(encode, sentence):
            digest.update(len(token).to_bytes(8, "little") + token)
    return digest.hexdigest()


def _compute(
    layers: StoredLayers, file: BinaryIO, embedder: Embedder, sentences: Sentences
) -> None:
    """Computes layers, and writes them to a file."""
    if layers.num_bytes:
        os.posix_fallocate(file.fileno(), 0, layers.num_bytes)  # raises an error now, not later
    largest = 0.0
    arrays = embedder.embed(sentences)
    arrays = progress_over(arrays, len(sentences), "embedding", "sentences")
    for index, array in enumerate(arrays):  # (layer, token, feature)
        magnitude = np.abs(array).max(initial=0)
        if not np.isfinite(magnitude):
            raise ValueError(
                f"Vectors of sentence {index} are not finite (NaN or infinity): the weights of "
                "the model are damaged or far too large."
            )
        if magnitude > _LARGEST:
            array = np.clip(array, -_LARGEST, _LARGEST)
            largest = max(largest, magnitude)
        for layer, vectors in enumerate(array.astype(np.float16)):
            file.seek(2 * (layer * layers.shape[1] + layers.offsets[index]) * layers.shape[2])
            file.write(vectors.tobytes())
    file.flush()
    if largest:
        logging.warning("Values up to %.3g were clipped to 65,504 for float16.", largest)
    layers.open(file)
