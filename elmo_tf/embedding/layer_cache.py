"""Sentences ─► their layers, computed once and cached on disk."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import platformdirs
from absl import logging

from elmo_tf import __version__
from elmo_tf.config_checks import check_int
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.embedding.layer_files import LayerFiles, LayersShape, write_layers
from elmo_tf.files import naming_full_disk, sync_to_disk
from elmo_tf.progress import progress_over
from elmo_tf.text.sentences import encode

# Increase it when the same vectors are stored in another way.
_FORMAT_VERSION = 1
_LOCK_FILE, _NOTE_FILE = "lock", "note.json"
# Folder names of complete and of unfinished entries. Other files in the cache are never removed.
_ENTRY = re.compile(r"[0-9a-f]{64}\.layers")
_UNFINISHED = re.compile(r"([0-9a-f]{64}|once-[0-9a-f]{16})\.layers\.part")

Sentences = Sequence[Sequence[str]]


def default_cache_folder() -> Path:
    """Returns the cache folder of the platform: `~/.cache/elmo_tf/layers` on Linux.

    `$XDG_CACHE_HOME`, if set, replaces `~/.cache`.

    Raises:
        RuntimeError: there is no home folder.
    """
    try:
        # Some versions of platformdirs return a "~" if there is no home folder.
        return Path(platformdirs.user_cache_dir("elmo_tf"), "layers").expanduser()
    except RuntimeError:
        raise RuntimeError(
            "There is no home folder for the layer cache: set XDG_CACHE_HOME to an absolute path, "
            "name a folder (folder, --cache), or disable the cache (max_bytes=0, --no-cache)."
        ) from None


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
    """

    def __init__(self, folder: str | os.PathLike | None = None, max_bytes: int = 20 * 2**30):
        check_int(max_bytes, "max_bytes", ge=0)
        self._max_bytes = max_bytes
        if max_bytes:
            self._folder = default_cache_folder() if folder is None else Path(folder)

    def has_room(self, embedder: Embedder, sentences: Sentences) -> bool:
        """Whether the layers of the sentences fit into the cache; see `layers`."""
        return _Request(embedder, sentences).shape.num_bytes <= self._max_bytes

    @contextlib.contextmanager
    def layers(self, embedder: Embedder, sentences: Sentences) -> Iterator[LayerFiles]:
        """A context that yields the layers of all sentences and closes them at the end.

        Args:
            embedder: an `Embedder` with `layers="all"`.
            sentences: lists of tokens.

        Raises:
            TypeError: a sentence is a string.
            ValueError: `embedder` does not return all layers, or vectors are not finite.
            OSError: the disk is full, or the folder is not writable.
        """
        check_all_layers(embedder)
        for sentence in sentences:
            if isinstance(sentence, str | bytes):
                raise TypeError(f"A sentence must be a list of tokens. Received: {sentence!r}")
        with contextlib.closing(self._open(_Request(embedder, sentences))) as layers:
            yield layers

    def _open(self, request: "_Request") -> LayerFiles:
        if not self._max_bytes:
            # Open files stay readable when the folder is removed.
            with tempfile.TemporaryDirectory(prefix="elmo_tf_layers_") as folder:
                return request.compute(Path(folder))
        self._folder.mkdir(parents=True, exist_ok=True)
        if request.shape.num_bytes <= self._max_bytes:
            return self._open_or_compute(request)
        logging.warning(
            "The layers take %.3g GiB, more than the cache size (%.3g GiB): they are computed "
            "for this use only.",
            request.shape.num_bytes / 2**30,
            self._max_bytes / 2**30,
        )
        return self._compute_once(request)

    def _open_or_compute(self, request: "_Request") -> LayerFiles:
        entry = self._folder / f"{request.key()}.layers"
        part = entry.with_suffix(".layers.part")
        while True:
            with self._locked():
                layers = _open_entry(entry, request)
                if layers is not None:
                    return layers
                lock = _lock_part(part)
                if lock is not None:
                    self._make_room(request.shape.num_bytes)
                    break
            logging.info("Waiting for another process that computes the same layers.")
            _wait_for(part)
        try:
            layers = request.compute(part)
        except BaseException:
            self._remove(part, lock)
            raise
        with lock, self._locked():
            os.replace(part, entry)
            self._make_room(0, keep=entry)
        return layers

    def _compute_once(self, request: "_Request") -> LayerFiles:
        part = self._folder / f"once-{secrets.token_hex(8)}.layers.part"
        with self._locked():
            lock = _lock_part(part)
            self._remove_unfinished()
        try:
            return request.compute(part)
        finally:
            self._remove(part, lock)  # open files stay readable

    def _remove(self, part: Path, lock: BinaryIO) -> None:
        with lock, self._locked():
            shutil.rmtree(part)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Excludes other processes and threads from changing the folder."""
        with open(self._folder / _LOCK_FILE, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_room(self, num_bytes: int, keep: Path | None = None) -> None:
        """Removes the least recently used entries until `num_bytes` more fit."""
        self._remove_unfinished()
        sizes = {
            path: sum(file.stat().st_size for file in path.iterdir())
            for path in self._folder.iterdir()
            if _ENTRY.fullmatch(path.name.removesuffix(".part"))
        }
        total = num_bytes + sum(sizes.values())
        entries = [path for path in sizes if _ENTRY.fullmatch(path.name) and path != keep]
        for path in sorted(entries, key=lambda path: path.stat().st_mtime_ns):
            if total <= self._max_bytes:
                break
            shutil.rmtree(path)
            total -= sizes[path]

    def _remove_unfinished(self) -> None:
        """Removes unfinished entries of processes that were killed."""
        for path in self._folder.iterdir():
            if _UNFINISHED.fullmatch(path.name) and (lock := _lock_part(path)) is not None:
                with lock:
                    shutil.rmtree(path)


class _Request:
    """The sentences whose layers a caller needs, and their embedder."""

    def __init__(self, embedder: Embedder, sentences: Sentences):
        self._embedder = embedder
        self._sentences = sentences
        self._lengths = [len(sentence) for sentence in sentences]
        self.shape = LayersShape(embedder.num_layers, sum(self._lengths), embedder.dim)

    def key(self) -> str:
        """A digest of everything that the vectors depend on."""
        settings = self._embedder.settings()
        content = [_FORMAT_VERSION, __version__, settings["model"], settings["precision"]]
        digest = hashlib.sha256(json.dumps(content).encode())
        for sentence in self._sentences:
            digest.update(len(sentence).to_bytes(8, "little"))
            for token in map(encode, sentence):
                digest.update(len(token).to_bytes(8, "little") + token)
        return digest.hexdigest()

    def compute(self, folder: Path) -> LayerFiles:
        """Writes the layers to a folder and opens them."""
        free = shutil.disk_usage(folder).free
        if self.shape.num_bytes > free:
            raise OSError(
                errno.ENOSPC,
                f"The layers take {self.shape.num_bytes / 2**30:.3g} GiB, and "
                f"{free / 2**30:.3g} GiB are free",
                str(folder.parent),
            )
        arrays = self._embedder.embed(self._sentences)
        arrays = progress_over(arrays, len(self._sentences), "embedding", "sentences")
        with naming_full_disk(folder.parent):
            num_clipped = write_layers(folder, arrays, self.shape)
        (folder / _NOTE_FILE).write_text(json.dumps({"clipped": num_clipped}), "utf-8")
        for path in folder.iterdir():
            sync_to_disk(path)
        return self.open(folder)

    def open(self, folder: Path) -> LayerFiles:
        """Opens complete layers."""
        num_clipped = json.loads((folder / _NOTE_FILE).read_bytes())["clipped"]
        layers = LayerFiles(folder, self._lengths, self.shape.num_layers, self.shape.dim)
        if num_clipped:
            logging.warning(
                "%s values of the layers are too large for float16 and were clipped to 65,504.",
                f"{num_clipped:,}",
            )
        return layers


def _open_entry(entry: Path, request: _Request) -> LayerFiles | None:
    """Opens an entry; returns None if there is none, and removes it if it is damaged."""
    if not entry.exists():
        return None
    try:
        layers = request.open(entry)
    except (FileNotFoundError, KeyError, TypeError, ValueError) as error:
        logging.warning("The cached layers are damaged and are computed again: %s", error)
        shutil.rmtree(entry)
        return None
    os.utime(entry)  # the time of its last use
    return layers


def _lock_part(part: Path) -> BinaryIO | None:
    """Creates and locks an empty folder for an entry; None if a running process has locked it.

    Closing the returned file releases the lock.
    """
    part.mkdir(exist_ok=True)
    lock = open(part / _LOCK_FILE, "ab")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    for path in part.iterdir():
        if path.name != _LOCK_FILE:
            path.unlink()
    return lock


def _wait_for(part: Path) -> None:
    """Waits until no process has locked the folder of an unfinished entry."""
    with contextlib.suppress(FileNotFoundError), open(part / _LOCK_FILE, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
