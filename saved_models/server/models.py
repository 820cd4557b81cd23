"""The versions of one model: finds, loads and unloads them."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from absl import logging
from tensorflow_serving.apis import get_model_status_pb2

from elmo_tf.saved_models.server.errors import servable_not_found, unavailable
from elmo_tf.saved_models.server.loaded_version import LoadedVersion
from elmo_tf.saved_models.versions import versions_in

State = get_model_status_pb2.ModelVersionStatus.State


class Model:
    """The versions of one model, in numbered folders of `directory`. Thread-safe.

    The newest version is loaded. An old version is unloaded after its successor is loaded and its
    last request is answered. The other versions in the folder are loaded on request, and kept until
    the newest version changes.
    """

    def __init__(self, name: str, directory: Path, load: Callable[[int, Path], LoadedVersion]):
        self.name = name
        self.directory = directory
        self._load_version = load
        self._newest: int | None = None  # at the last refresh
        self._on_request: set[int] = set()  # requested since then
        self._versions: dict[int, _Version] = {}
        self._lock = threading.Lock()  # guards the above
        self._loading = threading.Lock()  # versions are loaded one at a time
        self._closed = False

    def load(self) -> None:
        """Loads the newest version. Raises the errors of TensorFlow."""
        self.refresh()
        if (error := self._versions[self._newest].error) is not None:
            raise error

    def refresh(self) -> None:
        """Loads a new version and unloads old ones; logs versions that cannot be loaded."""
        with self._loading:
            found = versions_in(self.directory)
            if not found:
                return  # the loaded versions serve on
            if self._newest != max(found):
                self._newest = max(found)
                self._on_request.clear()
            # Old versions serve until a new one is available.
            if self._load(self._newest, found[self._newest]):
                self._unload_others({self._newest, *self._on_request.intersection(found)})

    @contextlib.contextmanager
    def version(self, number: int | None = None) -> Iterator[LoadedVersion]:
        """Yields a version, by default the newest; it stays loaded within the block."""
        version = self._acquire(number)
        try:
            yield version.loaded
        finally:
            with self._lock:
                version.num_running -= 1
            self._close_if_idle(version)

    def states(self) -> dict[int, "_Version"]:
        """The state of each version, also of those that can be loaded on request."""
        with self._lock:
            states = {n: dataclasses.replace(version) for n, version in self._versions.items()}
        return {n: _Version(n) for n in versions_in(self.directory)} | states

    def close(self) -> None:
        """Unloads all versions. Later requests are rejected."""
        with self._lock:
            self._closed = True
        with self._loading:
            self._unload_others(set())

    def _acquire(self, number: int | None) -> "_Version":
        """Finds a version, or loads it, and counts a running request."""
        version = self._find(number)
        path = None if number is None or version else versions_in(self.directory).get(number)
        if path is not None:
            with self._loading:
                self._on_request.add(number)
                self._load(number, path)
            version = self._find(number)
        if version is None:
            raise servable_not_found(self.name, number)
        return version

    def _find(self, number: int | None) -> "_Version | None":
        with self._lock:
            if self._closed:
                raise unavailable("The server is shutting down.")
            available = self._available()
            version = available.get(max(available, default=None) if number is None else number)
            if version is not None:
                version.num_running += 1
            return version

    def _available(self) -> dict[int, "_Version"]:
        """The loaded versions. The caller holds `_lock`."""
        return {n: version for n, version in self._versions.items() if version.is_available}

    def _load(self, number: int, path: Path) -> bool:
        """Loads a version, unless it failed before and its files are the same.

        The caller holds `_loading`. Errors are logged. Returns whether the version is available.
        """
        known, changed = self._versions.get(number), _last_change(path)
        if known is not None and known.is_available:
            return True
        if known is not None and known.error is not None and known.changed == changed:
            return False
        version = _Version(number, State.LOADING, changed=changed)
        with self._lock:
            if self._closed:
                return False
            self._versions[number] = version
        try:
            version.loaded = self._load_version(number, path)
        except Exception as error:
            version.error, version.state = error, State.END
            logging.error("Cannot load version %d of %s: %s", number, self.name, error)
        else:
            version.state = State.AVAILABLE
        return version.is_available

    def _unload_others(self, wanted: set[int]) -> None:
        with self._lock:
            others = [version for n, version in self._available().items() if n not in wanted]
            for version in others:
                version.state = State.UNLOADING
        for version in others:
            self._close_if_idle(version)

    def _close_if_idle(self, version: "_Version") -> None:
        with self._lock:
            if version.state != State.UNLOADING or version.num_running:
                return
            version.state = State.END
            loaded, version.loaded = version.loaded, None
        loaded.close()
        logging.info("Unloaded %s, version %d.", self.name, version.number)


@dataclasses.dataclass
class _Version:
    """A version and its state."""

    number: int
    state: int = State.START
    loaded: LoadedVersion | None = None
    num_running: int = 0  # requests
    error: BaseException | None = None
    changed: float = 0.0  # newest modification time of its files

    @property
    def is_available(self) -> bool:
        return self.state == State.AVAILABLE


def _last_change(path: Path) -> float:
    """Returns the newest modification time in a folder; files may disappear meanwhile."""
    times = [0.0]
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)
