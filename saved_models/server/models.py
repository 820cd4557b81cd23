"""The models of a server. The newest version of each is loaded, and swapped for a newer one."""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import prometheus_client
from absl import logging
from grpc import StatusCode
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from elmo_tf.saved_models.exporting.export import versions_in
from elmo_tf.saved_models.server.batching import Limits, invalid, not_found, status_of, unavailable
from elmo_tf.saved_models.server.loaded_version import LoadedVersion

Status = get_model_status_pb2.ModelVersionStatus
_MICROSECONDS = [10 * 1.8**step for step in range(32)]  # TF Serving's buckets: up to 14 minutes


class Models:
    """The models of a server by name. Rejected requests raise `tf.errors.OpError`.

    Args:
        directories: the folder of each model by name.
        limits: of a request.

    Attributes:
        names: the names of the models, sorted.
        registry: the Prometheus metrics, with TF Serving's names.
    """

    def __init__(self, directories: Mapping[str, Path], limits: Limits):
        self.limits = limits
        load = functools.partial(LoadedVersion, limits=limits)
        self._models = {name: Model(name, directories[name], load) for name in sorted(directories)}
        self.names = list(self._models)
        self.registry = registry = prometheus_client.CollectorRegistry()
        # A gauge that is only increased: to the name of a counter the library appends `_total`.
        name, labels = ":tensorflow:serving:request_count", ["model_name", "status"]
        self._requests = prometheus_client.Gauge(name, "Predictions.", labels, registry=registry)
        name, labels = ":tensorflow:serving:request_latency", ["model_name", "API", "entrypoint"]
        self._latency = prometheus_client.Histogram(
            name, "Microseconds of a prediction.", labels, registry=registry, buckets=_MICROSECONDS
        )
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    def load(self) -> None:
        """Loads all models. Raises the errors of TensorFlow."""
        for model in self._models.values():
            model.load()

    def watch(self, seconds: float) -> None:
        """Starts a thread that checks for new versions every `seconds`."""

        def check() -> None:
            while not self._stopped.wait(seconds):
                for model in self._models.values():
                    try:
                        model.load()
                    except Exception as error:
                        logging.error("Cannot load a new version of %s: %s", model.name, error)

        self._watch = threading.Thread(target=check, name="versions", daemon=True)
        self._watch.start()

    @contextlib.contextmanager
    def version(self, spec: model_pb2.ModelSpec) -> Iterator[LoadedVersion]:
        """Yields the version that a request names; it stays loaded within the block."""
        if spec.HasField("version_label"):
            raise invalid("This server has no version labels.")
        number = spec.version.value if spec.HasField("version") else None
        with self._model(spec.name).version(number) as version:
            yield version

    @contextlib.contextmanager
    def counted(self, model: str, entrypoint: str) -> Iterator[None]:
        """Counts the prediction in the block, and records its latency if it succeeds.

        `entrypoint` is `"GRPC"` or `"REST"`.
        """
        start_time, code = time.monotonic(), StatusCode.OK
        # Unknown names share one label: otherwise clients could fill the memory.
        name = model if model in self._models else ""
        try:
            yield
            seconds = time.monotonic() - start_time
            self._latency.labels(name, "Predict", entrypoint).observe(1e6 * seconds)
        except Exception as error:
            code, _ = status_of(error)
            raise
        finally:
            self._requests.labels(name, code.name).inc()

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        with self.version(request.model_spec) as version:
            if list(request.metadata_field) != ["signature_def"]:
                raise invalid('The `metadata_field` must be "signature_def".')
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
        statuses = self._model(spec.name).statuses()
        if spec.HasField("version"):
            statuses = [status for status in statuses if status.version == spec.version.value]
            if not statuses:
                raise not_found(f"{spec.name} has no version {spec.version.value}.")
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=statuses)

    def close(self) -> None:
        """Closes all sessions. Later requests are rejected."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join()
        for model in self._models.values():
            model.close()

    def _model(self, name: str) -> "Model":
        if not name:
            raise invalid("The request does not name a model.")
        if name not in self._models:
            raise not_found(f"There is no model {name}. Models: {', '.join(self.names)}")
        return self._models[name]


class Model:
    """The newest version of a model, in numbered folders of `directory`. Thread-safe.

    An old version is closed after its successor is loaded and its last request is answered.
    """

    def __init__(self, name: str, directory: Path, load: Callable[[int, Path], LoadedVersion]):
        self.name = name
        self._directory = directory
        self._load = load
        self._current: LoadedVersion | None = None
        self._num_users: dict[LoadedVersion, int] = {}  # running requests, and being `_current`
        self._lock = threading.Lock()  # guards the above
        # The newest version, if it cannot be loaded: its number, last change and error.
        self._failed: tuple[int, float, Exception] | None = None

    def load(self) -> None:
        """Loads the newest version, unless it is loaded or failed before with the same files.

        Raises:
            Exception: TensorFlow cannot load it. The loaded version serves on.
        """
        found = versions_in(self._directory)
        number = max(found, default=None)
        if number is None or (self._current is not None and self._current.number == number):
            self._failed = None
            return
        changed = max(file.stat().st_mtime for file in found[number].rglob("*"))
        if self._failed is not None and self._failed[:2] == (number, changed):
            return
        start_time = time.monotonic()
        try:
            loaded = self._load(number, found[number])
        except Exception as error:
            self._failed = number, changed, error
            raise
        logging.info("Loaded %s in %.1f s.", found[number], time.monotonic() - start_time)
        self._failed = None
        self._replace(loaded)

    @contextlib.contextmanager
    def version(self, number: int | None = None) -> Iterator[LoadedVersion]:
        """Yields the newest version, which must be `number`; it stays loaded within the block."""
        with self._lock:
            version = self._current
            if version is None:
                raise unavailable("The server is shutting down.")
            if number not in (None, version.number):
                raise not_found(f"{self.name} has version {version.number}, not {number}.")
            self._num_users[version] += 1
        try:
            yield version
        finally:
            self._release(version)

    def statuses(self) -> list[Status]:
        """Returns the status of a newest version that cannot be loaded, and of the loaded one."""
        statuses, current, failed = [], self._current, self._failed
        if failed is not None:
            number, _, error = failed
            code, message = status_of(error)
            status = {"error_code": code.value[0], "error_message": message}
            statuses.append(Status(version=number, state=Status.END, status=status))
        if current is not None:
            # Set even to their defaults, so that `status` is present in the answer.
            status = {"error_code": 0, "error_message": ""}
            statuses.append(Status(version=current.number, state=Status.AVAILABLE, status=status))
        return statuses

    def close(self) -> None:
        """Closes the version after its last request. Later requests are rejected."""
        self._replace(None)

    def _replace(self, new: LoadedVersion | None) -> None:
        with self._lock:
            old, self._current = self._current, new
            if new is not None:
                self._num_users[new] = 1
        if old is not None:
            self._release(old)

    def _release(self, version: LoadedVersion) -> None:
        with self._lock:
            self._num_users[version] -= 1
            if self._num_users[version]:
                return
            del self._num_users[version]
        version.close()
        logging.info("Unloaded %s, version %d.", self.name, version.number)
