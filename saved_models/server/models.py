"""The models of a server, and their versions, which it finds, loads and unloads."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from absl import logging
from grpc import StatusCode
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from elmo_tf.saved_models.server.batching import Batching
from elmo_tf.saved_models.server.limits import (
    Limits,
    invalid,
    not_found,
    servable_not_found,
    shortened,
    unavailable,
)
from elmo_tf.saved_models.server.loaded_version import LoadedVersion
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.versions import versions_in

State = get_model_status_pb2.ModelVersionStatus.State


class ServerCore:
    """The models of a server. Rejected requests raise `tf.errors.OpError`.

    Args:
        directories: the folder of each model by name.
        limits, batching: see `serve`.

    Attributes:
        names: the names of the models, sorted.
    """

    def __init__(
        self,
        directories: Mapping[str, Path],
        limits: Limits | None = None,
        batching: Batching | None = None,
    ):
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self._batching = batching
        self._models = {
            name: Model(name, path, self._load) for name, path in sorted(directories.items())
        }
        self.names = list(self._models)
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    def load(self) -> None:
        """Loads all models. Raises the errors of `Model.load`."""
        for model in self._models.values():
            model.load()

    def watch(self, seconds: float) -> None:
        """Starts a thread that checks for new versions every `seconds`."""

        def check() -> None:
            while not self._stopped.wait(seconds):
                for model in self._models.values():
                    try:
                        model.refresh()
                    except Exception:
                        logging.exception("Cannot check %s for new versions.", model.name)

        self._watch = threading.Thread(target=check, name="versions", daemon=True)
        self._watch.start()

    @contextlib.contextmanager
    def version(self, spec: model_pb2.ModelSpec) -> Iterator[LoadedVersion]:
        """Yields the version that a request names; it stays loaded within the block."""
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        if spec.HasField("version_label"):
            raise invalid(f"Unrecognized servable version label: {shortened(spec.version_label)}")
        number = spec.version.value if spec.HasField("version") else None
        if spec.name not in self._models:
            raise servable_not_found(spec.name, number)
        with self._models[spec.name].version(number) as version:
            yield version

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        with self.version(request.model_spec) as version:
            if not request.metadata_field:
                raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != "signature_def":
                    raise invalid(f"Metadata field {shortened(field)} is not supported")
            response = get_model_metadata_pb2.GetModelMetadataResponse(
                model_spec={"name": request.model_spec.name, "version": {"value": version.number}}
            )
            response.metadata["signature_def"].Pack(
                get_model_metadata_pb2.SignatureDefMap(signature_def=version.signatures)
            )
        return response

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Answers `ModelService.GetModelStatus`, newest version first."""
        spec = request.model_spec
        requested = f"any versions of model {shortened(spec.name)}"
        states = self._models[spec.name].states() if spec.name in self._models else {}
        if spec.HasField("version"):
            requested = f"version {spec.version.value} of model {shortened(spec.name)}"
            states = {n: state for n, state in states.items() if n == spec.version.value}
        if not states:
            raise not_found(f"Could not find {requested}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, version in sorted(states.items(), reverse=True):
            # Setting the fields, even to their defaults, makes `status` present in the answer.
            status = {"error_code": 0, "error_message": ""}
            if version.error is not None:
                code = getattr(version.error, "error_code", 2)
                status = {"error_code": code, "error_message": shortened(str(version.error))}
            response.model_version_status.add(version=number, state=version.state, status=status)
        return response

    def observe(self, model: str, code: StatusCode, entrypoint: str, start_time: float) -> None:
        """Counts a prediction; see `Metrics.observe_prediction`."""
        # Unknown names share one label: otherwise clients could fill the memory.
        name = model if model in self._models else ""
        self.metrics.observe_prediction(name, code.name, entrypoint, time.monotonic() - start_time)

    def close(self) -> None:
        """Closes all sessions. Later requests are rejected."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join()
        for model in self._models.values():
            model.close()

    def _load(self, number: int, path: Path) -> LoadedVersion:
        start_time, is_loaded = time.monotonic(), False
        try:
            version = LoadedVersion(number, path, self.limits, self._batching, self.metrics)
            is_loaded = True
        finally:
            self.metrics.count_load(str(path), is_loaded, time.monotonic() - start_time)
        logging.info("Loaded %s in %.1f s.", path, time.monotonic() - start_time)
        return version


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
        version = self._find(number)
        path = None if number is None or version else versions_in(self.directory).get(number)
        if path is not None:
            with self._loading:
                self._on_request.add(number)
                self._load(number, path)
            version = self._find(number)
        if version is None:
            raise servable_not_found(self.name, number)
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

    def _find(self, number: int | None) -> "_Version | None":
        """Finds an available version, and counts a running request."""
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
