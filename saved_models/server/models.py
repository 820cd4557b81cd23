"""The versions of one model: finds, loads and unloads them."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import get_model_status_pb2, model_pb2
from tensorflow_serving.config import model_server_config_pb2

from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.server.errors import invalid, servable_not_found, shortened, unavailable
from elmo_tf.saved_models.server.sessions import LoadedVersion

State = get_model_status_pb2.ModelVersionStatus.State


class Model:
    """The versions of one model.

    The versions that the version policy selects are loaded; without a policy, the newest. An old
    version is unloaded after its successor is loaded and its last request is answered. Without a
    policy, the other versions in the folder are loaded on request, and kept until the newest
    version changes.

    Args:
        config: name, folder, version policy and labels, in TF Serving's format.
        load: loads a version.

    Raises:
        FileNotFoundError: the folder does not exist or holds no version.
    """

    def __init__(
        self,
        config: model_server_config_pb2.ModelConfig,
        load: Callable[[int, Path], LoadedVersion],
    ):
        self.name = config.name
        self.directory = Path(config.base_path)
        self._config = config
        self._wanted: list[int] = []  # by the policy, at the last refresh
        self._on_request: set[int] = set()  # requested since then
        self._load_version = load
        self._versions: dict[int, _Version] = {}
        self._lock = threading.Lock()  # guards the above
        self._loading = threading.Lock()  # versions are loaded one at a time
        self._closed = False
        _require_versions(self.directory)

    def load(self) -> None:
        """Loads the versions of the policy.

        Raises:
            Exception: TensorFlow cannot load a version.
            FileNotFoundError: a version of the policy does not exist.
            tf.errors.FailedPreconditionError: a label names a version that is not loaded.
        """
        self.prepare(self._config)
        self.refresh()

    def prepare(self, config: model_server_config_pb2.ModelConfig) -> None:
        """Loads the versions of a new configuration, unloads nothing. Raises as `load`."""
        with self._loading:
            found = versions_in(self.directory)
            missing = set(config.model_version_policy.specific.versions) - set(found)
            if missing:
                raise FileNotFoundError(
                    f"{self.directory} has no version {', '.join(map(str, sorted(missing)))} of "
                    f"{self.name}; it has {', '.join(map(str, sorted(found)))}."
                )
            for number in _wanted(config, found):
                self._load(number, found[number])
        for number in config.version_labels.values():
            if not self._is_available(number):
                message = (
                    f"Request to assign label to version {number} of model {self.name}, which is "
                    "not currently available for inference"
                )
                raise tf.errors.FailedPreconditionError(None, None, message)

    def refresh(self, config: model_server_config_pb2.ModelConfig | None = None) -> None:
        """Loads new versions and unloads old ones; logs versions that cannot be loaded.

        Args:
            config: a new configuration, see `prepare`; `None` means no change.
        """
        with self._loading:
            if config is not None:
                with self._lock:
                    self._config = config
            found = versions_in(self.directory)
            wanted = _wanted(self._config, found)
            if wanted != self._wanted:
                self._wanted = wanted
                self._on_request.clear()
            for number in wanted:
                self._try_load(number, found[number])
            # Old versions serve until a new one is available.
            if any(self._is_available(number) for number in wanted):
                self._unload_others({*wanted, *self._on_request.intersection(found)})

    @contextlib.contextmanager
    def version(self, spec: model_pb2.ModelSpec) -> Iterator[LoadedVersion]:
        """Yields the version that a request names, or the newest; it stays loaded within the block.

        Raises:
            tf.errors.NotFoundError: the version does not exist or cannot be loaded.
            tf.errors.InvalidArgumentError: the label is unknown.
            tf.errors.UnavailableError: the model is closed.
        """
        version = self._acquire(spec)
        try:
            yield version.loaded
        finally:
            with self._lock:
                version.num_running -= 1
            self._close_if_idle(version)

    def states(self) -> dict[int, "_Version"]:
        """The state of each version; without a policy, also of versions that can be loaded."""
        with self._lock:
            known = {n: dataclasses.replace(version) for n, version in self._versions.items()}
        if self._loads_on_request():
            for number in versions_in(self.directory):
                known.setdefault(number, _Version(number))
        return known

    def close(self) -> None:
        """Unloads all versions. Later requests are rejected."""
        with self._lock:
            self._closed = True
        with self._loading:
            self._unload_others(set())

    def _loads_on_request(self) -> bool:
        return self._config.model_version_policy.WhichOneof("policy_choice") is None

    def _acquire(self, spec: model_pb2.ModelSpec) -> "_Version":
        """Finds a version, or loads it, and counts a running request."""
        number = self._number(spec)
        version = self._find(number)
        if version is None and number is not None and self._loads_on_request():
            path = versions_in(self.directory).get(number)
            if path is not None:
                with self._loading:
                    self._on_request.add(number)
                    self._try_load(number, path)
                version = self._find(number)
        if version is None:
            raise servable_not_found(self.name, number)
        return version

    def _number(self, spec: model_pb2.ModelSpec) -> int | None:
        if spec.HasField("version_label"):
            with self._lock:
                if spec.version_label not in self._config.version_labels:
                    label = shortened(spec.version_label)
                    raise invalid(f"Unrecognized servable version label: {label}")
                return self._config.version_labels[spec.version_label]
        return spec.version.value if spec.HasField("version") else None

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
        return {n: one for n, one in self._versions.items() if one.state == State.AVAILABLE}

    def _is_available(self, number: int) -> bool:
        with self._lock:
            return number in self._available()

    def _try_load(self, number: int, path: Path) -> None:
        """Loads a version, unless it failed before and its files are the same; logs errors."""
        known = self._versions.get(number)
        if known is not None and known.error is not None and known.changed == _last_change(path):
            return
        try:
            self._load(number, path)
        except Exception as error:
            logging.error("Cannot load version %d of %s: %s", number, self.name, error)

    def _load(self, number: int, path: Path) -> None:
        """Loads a version unless it is loaded. The caller holds `_loading`."""
        if self._is_available(number):
            return
        version = _Version(number, State.LOADING, changed=_last_change(path))
        with self._lock:
            if self._closed:
                raise unavailable("The server is shutting down.")
            self._versions[number] = version
        try:
            version.loaded = self._load_version(number, path)
        except BaseException as error:
            version.error = error
            version.state = State.END
            raise
        version.state = State.AVAILABLE

    def _unload_others(self, wanted: set[int]) -> None:
        with self._lock:
            others = [one for n, one in self._available().items() if n not in wanted]
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


def _wanted(config: model_server_config_pb2.ModelConfig, found: Mapping[int, Path]) -> list[int]:
    """Returns the versions of the policy, newest first."""
    policy = config.model_version_policy
    newest = sorted(found, reverse=True)
    match policy.WhichOneof("policy_choice"):
        case "all":
            return newest
        case "specific":
            return [number for number in newest if number in policy.specific.versions]
    return newest[: max(1, policy.latest.num_versions)]


def _last_change(path: Path) -> float:
    """Returns the newest modification time in a folder; files may disappear meanwhile."""
    times = [0.0]
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            times.append(file.stat().st_mtime)
    return max(times)


def _require_versions(directory: Path) -> None:
    if versions_in(directory):
        return
    if (directory / "saved_model.pb").exists():
        raise FileNotFoundError(
            f"Cannot serve {directory}: it is a single version of a model. Rename it to a "
            "number, such as 1, and serve its parent folder."
        )
    reason = "it holds no version" if directory.is_dir() else "no such folder"
    raise FileNotFoundError(
        f"Cannot serve {directory}: {reason}. Expected a folder with numbered versions, such as "
        f"{directory / '1/saved_model.pb'}."
    )
