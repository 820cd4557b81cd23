"""The models of a server: each request goes to the version that it names."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from absl import logging
from grpc import StatusCode
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from elmo_tf.saved_models.server.batching import Batching
from elmo_tf.saved_models.server.errors import invalid, not_found, servable_not_found, shortened
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.loaded_version import LoadedVersion
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.models import Model


class ServerCore:
    """The models of a server. Rejected requests raise `tf.errors.OpError`.

    Args:
        directories: the folder of each model by name.
        limits, batching: see `serve`.
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
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def names(self) -> list[str]:
        """The names of the models, sorted."""
        return list(self._models)

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
