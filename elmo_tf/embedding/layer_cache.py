"""Sentences ─► their layers, computed once and kept on disk."""

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

from absl import logging

from elmo_tf import __version__
from elmo_tf.config_checks import check_int
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_files import LayerFiles, LayersShape, write_layers
from elmo_tf.files import naming_full_disk, synchronise
from elmo_tf.progress import progress_over
from elmo_tf.text.sentences import encode

# To be raised when the same vectors are to be kept otherwise.
_VERSION = 1
_LOCK_FILE, _NOTE_FILE = "lock", "note.json"
# Names of what is kept, and of what is being computed. Nothing else in the folder is touched.
_ENTRY = re.compile(r"[0-9a-f]{64}\.layers")
_PART = re.compile(r"([0-9a-f]{64}|once-[0-9a-f]{16})\.layers\.part")

Sentences = Sequence[Sequence[str]]


def default_cache_folder() -> Path:
    """`$XDG_CACHE_HOME/elmo_tf/layers`, or `~/.cache/elmo_tf/layers`.

    Raises:
        RuntimeError: there is no home folder.
    """
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise RuntimeError(
            "There is no home folder to keep layers in: set XDG_CACHE_HOME, name a folder (folder, "
            "--cache), or keep none (max_bytes=0, --no-cache)."
        ) from None
    return Path(caches, "elmo_tf", "layers")


class LayerCache:
    """A folder of the layers of sentences, in float16, of which each is computed once.

    What is kept is known by the model's weights, the precision, the tokens, and the version of
    elmo_tf. It is there whole or not at all, whenever a process is killed. Several processes may
    use the folder at once: who wants what another is computing waits for it.

    Args:
        folder: None for `default_cache_folder()`. Made if it is not there, unless nothing is kept.
        max_bytes: int >= 0. What the folder may hold. What was not used for the longest time is
            removed first. Layers that take more are computed anew each time, into files that are
            removed at the end; 0 keeps nothing.
    """

    def __init__(self, folder: str | os.PathLike | None = None, max_bytes: int = 20 * 2**30):
        check_int(max_bytes, "max_bytes", least=0)
        self._max_bytes = max_bytes
        if max_bytes:
            self._folder = default_cache_folder() if folder is None else Path(folder)

    def has_room(self, embedder: Embedder, sentences: Sentences) -> bool:
        """Whether the layers of all sentences would be kept; see `layers`."""
        return _Work(embedder, sentences).shape.num_bytes <= self._max_bytes

    @contextlib.contextmanager
    def layers(self, embedder: Embedder, sentences: Sentences) -> Iterator[LayerFiles]:
        """Gives the layers of all sentences, for the time of a block.

        Args:
            embedder: an `Embedder` with `layers="all"`.
            sentences: lists of tokens.

        Raises:
            TypeError: a sentence is a string.
            ValueError: `embedder` gives no layers, or vectors that are not finite.
            OSError: the disk is full, or the folder cannot be written.
        """
        if embedder.layers != "all":
            raise ValueError(
                f'`embedder` must give all layers (layers="all"). Received: {embedder.layers!r}'
            )
        for sentence in sentences:
            if isinstance(sentence, str | bytes):
                raise TypeError(f"A sentence must be a list of tokens. Received: {sentence!r}")
        work = _Work(embedder, sentences)
        with contextlib.closing(self._opened(work)) as layers:
            yield layers

    def _opened(self, work: "_Work") -> LayerFiles:
        if not self._max_bytes:
            # When they are written they are open, and can be read without their names.
            with tempfile.TemporaryDirectory(prefix="elmo_tf_layers_") as folder:
                return work.write(Path(folder))
        self._folder.mkdir(parents=True, exist_ok=True)
        if work.shape.num_bytes > self._max_bytes:
            return self._once(work)
        return self._kept(work)

    def _kept(self, work: "_Work") -> LayerFiles:
        """Layers that are in the folder, now or then."""
        entry = self._folder / f"{work.key()}.layers"
        part = entry.with_suffix(".layers.part")
        while True:
            with self._locked():
                layers = _whole(entry, work)
                if layers is not None:
                    return layers
                lock = _claimed(part)
                if lock is not None:
                    self._make_room(work.shape.num_bytes)
            if lock is not None:
                break
            logging.info("Waiting for another process, which computes the same layers.")
            _wait_for(part)
        with lock:
            try:
                layers = work.write(part)
            except BaseException:
                self._remove(part)
                raise
            with self._locked():
                os.replace(part, entry)
                self._make_room(0, but=entry)
        return layers

    def _once(self, work: "_Work") -> LayerFiles:
        """Layers of which nothing is left when they are closed."""
        logging.warning(
            "The layers take %.3g GB, more than the cache may hold (%.3g GB): they are computed "
            "for this time alone.",
            work.shape.num_bytes / 1e9,
            self._max_bytes / 1e9,
        )
        part = self._folder / f"once-{secrets.token_hex(8)}.layers.part"
        with self._locked():
            lock = _claimed(part)
            self._remove_stale_parts()
        with lock:
            try:
                return work.write(part)
            finally:
                self._remove(part)

    def _remove(self, part: Path) -> None:
        with self._locked():
            shutil.rmtree(part)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """A moment in which nobody else makes, renames or removes what is in the folder."""
        with open(self._folder / _LOCK_FILE, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_room(self, num_bytes: int, but: Path | None = None) -> None:
        """Removes what was not used for the longest time, until so much more may come."""
        self._remove_stale_parts()
        sizes = {path: _size(path) for path in self._folder.iterdir() if _is_counted(path)}
        total = num_bytes + sum(sizes.values())
        entries = [path for path in sizes if _ENTRY.fullmatch(path.name) and path != but]
        for path in sorted(entries, key=lambda path: path.stat().st_mtime_ns):
            if total <= self._max_bytes:
                break
            shutil.rmtree(path)
            total -= sizes[path]

    def _remove_stale_parts(self) -> None:
        """Removes what killed processes have left."""
        for path in self._folder.iterdir():
            if _PART.fullmatch(path.name) and (lock := _claimed(path)) is not None:
                with lock:
                    shutil.rmtree(path)


class _Work:
    """What is to be computed."""

    def __init__(self, embedder: Embedder, sentences: Sentences):
        self._embedder = embedder
        self._sentences = sentences
        self._lengths = [len(sentence) for sentence in sentences]
        num_layers = embedder.bilm.config.lstm.num_layers + 1
        self.shape = LayersShape(num_layers, sum(self._lengths), embedder.dim)

    def key(self) -> str:
        """A digest of all that the vectors depend on."""
        settings = self._embedder.settings()
        content = [_VERSION, __version__, settings["model"], settings["precision"]]
        digest = hashlib.sha256(json.dumps(content).encode())
        for sentence in self._sentences:
            digest.update(len(sentence).to_bytes(8, "little"))
            for token in map(encode, sentence):
                digest.update(len(token).to_bytes(8, "little") + token)
        return digest.hexdigest()

    def write(self, folder: Path) -> LayerFiles:
        """Computes the layers into a folder, and opens them."""
        free = shutil.disk_usage(folder).free
        if self.shape.num_bytes > free:
            raise OSError(
                errno.ENOSPC,
                f"The layers take {self.shape.num_bytes / 1e9:.3g} GB, and {free / 1e9:.3g} GB are "
                "free",
                str(folder.parent),
            )
        arrays = self._embedder.embed(self._sentences)
        arrays = progress_over(arrays, len(self._sentences), "embedding", "sentences")
        with naming_full_disk(folder.parent):
            num_clipped = write_layers(folder, arrays, self.shape)
        (folder / _NOTE_FILE).write_text(json.dumps({"clipped": num_clipped}), "utf-8")
        for path in folder.iterdir():
            synchronise(path)
        return self.open(folder)

    def open(self, folder: Path) -> LayerFiles:
        """Opens the layers, which must be whole."""
        num_clipped = json.loads((folder / _NOTE_FILE).read_bytes())["clipped"]
        layers = LayerFiles(folder, self._lengths, self.shape.num_layers, self.shape.dim)
        if num_clipped:
            logging.warning(
                "%s numbers of the layers are too large for float16: 65,504 stands for them.",
                f"{num_clipped:,}",
            )
        return layers


def _whole(entry: Path, work: _Work) -> LayerFiles | None:
    """Layers that are kept; None if they are not, or not whole."""
    if not entry.exists():
        return None
    try:
        layers = work.open(entry)
    except (FileNotFoundError, KeyError, TypeError, ValueError) as error:
        logging.warning("What was kept of the layers is damaged, and computed anew: %s", error)
        shutil.rmtree(entry)
        return None
    os.utime(entry)  # the time of its last use
    return layers


def _claimed(part: Path) -> BinaryIO | None:
    """Makes an empty folder this process's own; None if it is that of another one that lives."""
    part.mkdir(exist_ok=True)
    lock = open(part / _LOCK_FILE, "ab")  # noqa: SIM115 - closed by the caller, and so unlocked
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
    """Returns when nobody works in the folder any more."""
    with contextlib.suppress(FileNotFoundError), open(part / _LOCK_FILE, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def _is_counted(path: Path) -> bool:
    return bool(re.fullmatch(rf"{_ENTRY.pattern}(\.part)?", path.name))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
