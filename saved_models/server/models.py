"""The versions of one model: found in their folder, loaded, asked, and let go."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import get_model_status_pb2, model_pb2
from tensorflow_serving.config import model_server_config_pb2

from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.server.errors import invalid, not_found, shortened, unavailable
from elmo_tf.saved_models.server.sessions import LoadedVersion

State = get_model_status_pb2.ModelVersionStatus.State
_RETRY_SECONDS = 60  # after which a version that could not be loaded is tried again
_MOST_ENDED = 100  # versions that were let go and are still told of


class Model:
    """The versions of one model.

    Those that its version policy names are loaded; of a model without a policy the newest. A new
    folder is loaded first, and then takes the place of an old one, which is let go when the last
    of its requests is answered. Without a policy any other version in the folder is loaded when a
    request names it, until the next change.

    Args:
        config: name, folder, version policy and labels, as TF Serving takes them.
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
        self._newest: list[int] = []  # versions that the policy asked for, at the last look
        self._on_request: set[int] = set()  # others that requests asked for since
        self._load_version = load
        self._versions: dict[int, _Version] = {}
        self._lock = threading.Lock()  # of the above
        self._loading = threading.Lock()  # one version at a time
        self._closed = False
        _require_versions(self.directory)

    def load(self) -> None:
        """Loads the versions that should be.

        Raises:
            Exception: what TensorFlow raises if one cannot be loaded.
            FileNotFoundError: one that the policy names is not there.
            tf.errors.FailedPreconditionError: a label is for a version that is not loaded.
        """
        self.prepare(self._config)
        self.follow(self._config)

    def prepare(self, config: model_server_config_pb2.ModelConfig) -> None:
        """Loads what another policy asks for, and lets nothing go. Raises as `load`."""
        with self._loading:
            found = versions_in(self.directory)
            missing = set(config.model_version_policy.specific.versions) - set(found)
            if missing:
                raise FileNotFoundError(
                    f"{self.directory} has no version {', '.join(map(str, sorted(missing)))} of "
                    f"{self.name}; it has {', '.join(map(str, sorted(found)))}."
                )
            for number in _wanted(config, found):
                self._ensure(number, found[number])
        self._check_labels(config.version_labels)

    def follow(self, config: model_server_config_pb2.ModelConfig) -> None:
        """Takes over a policy and labels that have been prepared, and lets go the others."""
        with self._lock:
            self._config = config
        self.refresh()

    def refresh(self) -> None:
        """Loads what is new in the folder and lets go what is old; logs what cannot be loaded."""
        with self._loading:
            found = versions_in(self.directory)
            wanted = _wanted(self._config, found)
            if wanted != self._newest:
                self._newest = wanted
                self._on_request.clear()
            for number in wanted:
                self._try(number, found[number])
            # What serves stays until something can take its place.
            if any(self._is_available(number) for number in wanted):
                self._let_others_go({*wanted, *self._on_request.intersection(found)})

    @contextlib.contextmanager
    def version(self, spec: model_pb2.ModelSpec) -> Iterator[LoadedVersion]:
        """The version that a request names, or the newest; it stays loaded within the block.

        Raises:
            tf.errors.NotFoundError: there is none, or it cannot be loaded.
            tf.errors.InvalidArgumentError: its label is not known.
            tf.errors.UnavailableError: the model is closed.
        """
        version = self._begin(spec)
        try:
            yield version.loaded
        finally:
            with self._lock:
                version.num_running -= 1
            self._close_if_idle(version)

    def states(self) -> dict[int, "_Version"]:
        """What became of each version. Of a model without a policy, those that wait too."""
        with self._lock:
            known = {number: dataclasses.replace(one) for number, one in self._versions.items()}
        if self._loads_on_request():
            for number, path in versions_in(self.directory).items():
                known.setdefault(number, _Version(number, path))
        return known

    def close(self) -> None:
        """Lets all versions go. Requests from now on are refused."""
        with self._lock:
            self._closed = True
        with self._loading:
            self._let_others_go(set())

    def _check_labels(self, labels: Mapping[str, int]) -> None:
        for number in labels.values():
            if not self._is_available(number):
                message = (
                    f"Request to assign label to version {number} of model {self.name}, which is "
                    "not currently available for inference"
                )
                raise tf.errors.FailedPreconditionError(None, None, message)

    def _loads_on_request(self) -> bool:
        return self._config.model_version_policy.WhichOneof("policy_choice") is None

    def _begin(self, spec: model_pb2.ModelSpec) -> "_Version":
        """Finds a version and counts one more request that runs in it."""
        number, asked = self._asked(spec)
        for may_load in (True, False):
            with self._lock:
                if self._closed:
                    raise unavailable("The server is shutting down.")
                loaded = [one for one in self._versions.values() if one.state == State.AVAILABLE]
                wanted = (one for one in loaded if number in (None, one.number))
                version = max(wanted, key=lambda one: one.number, default=None)
                if version is not None:
                    version.num_running += 1
                    return version
            if number is None or not may_load or not self._loads_on_request():
                break
            path = versions_in(self.directory).get(number)
            if path is None:
                break
            with self._loading:
                self._on_request.add(number)
                self._try(number, path)
        raise not_found(f"Servable not found for request: {asked}")

    def _asked(self, spec: model_pb2.ModelSpec) -> tuple[int | None, str]:
        if spec.HasField("version_label"):
            with self._lock:
                if spec.version_label not in self._config.version_labels:
                    label = shortened(spec.version_label)
                    raise invalid(f"Unrecognized servable version label: {label}")
                number = self._config.version_labels[spec.version_label]
        elif spec.HasField("version"):
            number = spec.version.value
        else:
            return None, f"Latest({self.name})"
        return number, f"Specific({self.name}, {number})"

    def _is_available(self, number: int) -> bool:
        with self._lock:
            return number in self._versions and self._versions[number].state == State.AVAILABLE

    def _try(self, number: int, path: Path) -> None:
        """Loads a version if it has not failed just now; logs what is wrong with it."""
        version = self._versions.get(number)
        if version is not None and version.has_failed(path):
            return
        try:
            self._ensure(number, path)
        except Exception as error:
            logging.error("Cannot load version %d of %s: %s", number, self.name, error)

    def _ensure(self, number: int, path: Path) -> None:
        """Loads a version unless it is loaded. `_loading` is held."""
        if self._is_available(number):
            return
        version = _Version(number, path, State.LOADING, changed=_last_change(path))
        with self._lock:
            if self._closed:
                raise unavailable("The server is shutting down.")
            self._versions[number] = version
        try:
            version.loaded = self._load_version(number, path)
        except BaseException as error:
            version.error = error
            version.failed = time.monotonic()
            version.state = State.END
            raise
        version.state = State.AVAILABLE

    def _let_others_go(self, wanted: set[int]) -> None:
        with self._lock:
            others = [
                one
                for one in self._versions.values()
                if one.number not in wanted and one.state == State.AVAILABLE
            ]
            for version in others:
                version.state = State.UNLOADING
        for version in others:
            self._close_if_idle(version)
        with self._lock:
            ended = sorted(n for n, one in self._versions.items() if one.state == State.END)
            for number in ended[:-_MOST_ENDED]:
                del self._versions[number]

    def _close_if_idle(self, version: "_Version") -> None:
        with self._lock:
            if version.state != State.UNLOADING or version.num_running:
                return
            version.state = State.END
            loaded, version.loaded = version.loaded, None
        loaded.close()
        logging.info("Let go version %d of %s.", version.number, self.name)


@dataclasses.dataclass
class _Version:
    """What became of a version."""

    number: int
    path: Path
    state: int = State.START
    loaded: LoadedVersion | None = None
    num_running: int = 0  # requests
    error: BaseException | None = None
    failed: float = 0.0  # when
    changed: float = 0.0  # its files, as far as is known

    def has_failed(self, path: Path) -> bool:
        """Whether it could not be loaded and nothing has changed since, for a while."""
        if self.error is None or time.monotonic() - self.failed > _RETRY_SECONDS:
            return False
        return self.changed == _last_change(path)


def _wanted(config: model_server_config_pb2.ModelConfig, found: Mapping[int, Path]) -> list[int]:
    """The versions that the policy asks for, newest first."""
    policy = config.model_version_policy
    newest = sorted(found, reverse=True)
    match policy.WhichOneof("policy_choice"):
        case "all":
            return newest
        case "specific":
            return [number for number in newest if number in policy.specific.versions]
    return newest[: max(1, policy.latest.num_versions)]


def _last_change(path: Path) -> float:
    """When a file of a version was last written. A version may still be being copied."""
    times = [0.0]
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):  # gone again
            times.append(file.stat().st_mtime)
    return max(times)


def _require_versions(directory: Path) -> None:
    expected = f"Expected a folder with numbered versions, such as {directory / '1/saved_model.pb'}"
    if not directory.is_dir():
        raise FileNotFoundError(f"Cannot serve {directory}: no such folder. {expected}.")
    if versions_in(directory):
        return
    if (directory / "saved_model.pb").exists():
        raise FileNotFoundError(
            f"Cannot serve {directory}: it is itself one version of a model. Serve the folder "
            f"above it; the name of this one must be a number."
        )
    raise FileNotFoundError(f"Cannot serve {directory}: it holds no version. {expected}.")
