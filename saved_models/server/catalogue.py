"""The models of a server: each request goes to the version that it names."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from absl import logging
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    predict_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from elmo_tf.saved_models.server.batching import Batching
from elmo_tf.saved_models.server.errors import (
    invalid,
    not_found,
    servable_not_found,
    shortened,
    unavailable,
)
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.models import Model
from elmo_tf.saved_models.server.sessions import LoadedVersion

Config = model_server_config_pb2.ModelServerConfig
Infos = Mapping[str, meta_graph_pb2.TensorInfo]


def config_of(directory: str | os.PathLike, name: str) -> Config:
    """Returns the configuration of one model, whose newest version is served."""
    config = Config()
    config.model_config_list.config.add(name=name, base_path=os.fspath(directory))
    return config


class Catalogue:
    """The models of a server. Rejected requests raise `tf.errors.OpError`.

    Raises:
        FileNotFoundError: a folder does not exist or holds no version.
        ValueError: a model has no name or no folder, or two models have the same name.
    """

    def __init__(
        self,
        config: Config,
        limits: Limits | None = None,
        batching: Batching | None = None,
        metrics: Metrics | None = None,
    ):
        self.limits = limits or Limits()
        self._batching = batching
        self._metrics = metrics or Metrics()
        self._models = {
            name: Model(model_config, self._load)
            for name, model_config in _checked_configs(config).items()
        }
        self._reloading = threading.Lock()
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def names(self) -> list[str]:
        """The names of the models, sorted."""
        return sorted(self._models)

    def load(self) -> None:
        """Loads all models. Raises the errors of `Model.load`."""
        for model in self._models.values():
            model.load()

    def watch(self, seconds: float) -> None:
        """Starts a thread that checks for new versions every `seconds`."""

        def check() -> None:
            while not self._stopped.wait(seconds):
                self.refresh()

        self._watch = threading.Thread(target=check, name="versions", daemon=True)
        self._watch.start()

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        is_awaited: Callable[[], bool] = lambda: True,
        add_inputs: Callable[[Infos], None] | None = None,
    ) -> predict_pb2.PredictResponse:
        """Answers `PredictionService.Predict`.

        Args:
            is_awaited: returns whether the client still waits for the answer.
            add_inputs: adds the inputs to `request`, given those of the signature. For requests
                that are not protos.
        """
        with self._version(request) as version:
            if add_inputs is not None:
                add_inputs(version.inputs_of(request))
            response = version.answer(request, is_awaited)
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = version.number
        return response

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        with self._version(request) as version:
            if not request.metadata_field:
                raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != "signature_def":
                    raise invalid(f"Metadata field {shortened(field)} is not supported")
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = version.number
            response.metadata["signature_def"].Pack(
                get_model_metadata_pb2.SignatureDefMap(signature_def=version.signatures)
            )
        return response

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Answers `ModelService.GetModelStatus`, newest version first."""
        _require_model_spec(request)
        spec = request.model_spec
        requested = f"any versions of model {shortened(spec.name)}"
        model = self._models.get(spec.name)
        states = {} if model is None else model.states()
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

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest
    ) -> model_management_pb2.ReloadConfigResponse:
        """Answers `ModelService.HandleReloadConfigRequest`: replaces the configuration.

        New versions are loaded before old ones are unloaded. On an error nothing changes.
        """
        if request.config.WhichOneof("config") != "model_config_list":
            raise invalid(
                "ServerModelConfig type not supported by HandleReloadConfig. Only ModelConfigList "
                "is currently supported"
            )
        with self._reloading:
            if self._stopped.is_set():
                raise unavailable("The server is shutting down.")
            try:
                self._apply(request.config)
            except (OSError, ValueError) as error:
                raise invalid(str(error)) from error
        response = model_management_pb2.ReloadConfigResponse()
        response.status.error_code = 0
        return response

    def refresh(self) -> None:
        """Checks for new versions now."""
        with self._reloading:  # otherwise versions prepared by a reload would be unloaded
            for model in self._models.values():
                try:
                    model.refresh()
                except Exception:
                    logging.exception("Cannot check %s for new versions.", model.name)

    def close(self) -> None:
        """Closes all sessions. Later requests are rejected."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join()
        with self._reloading:
            for model in self._models.values():
                model.close()

    def _load(self, number: int, path: Path) -> LoadedVersion:
        start_time, is_loaded = time.monotonic(), False
        try:
            version = LoadedVersion(number, path, self.limits, self._batching, self._metrics)
            is_loaded = True
        finally:
            self._metrics.count_load(str(path), is_loaded, time.monotonic() - start_time)
        logging.info("Loaded %s in %.1f s.", path, time.monotonic() - start_time)
        return version

    def _apply(self, config: Config) -> None:
        old, new, configs = self._models, {}, _checked_configs(config)
        try:
            for name, model_config in configs.items():
                keep = name in old and old[name].directory == Path(model_config.base_path)
                new[name] = old[name] if keep else Model(model_config, self._load)
                new[name].prepare(model_config)
        except BaseException:
            for name, model in new.items():
                if model is old.get(name):
                    model.refresh()  # unloads the versions that `prepare` has loaded
                else:
                    model.close()
            raise
        self._models = new
        for name, model in new.items():
            model.refresh(configs[name])
        for name, model in old.items():
            if model is not new.get(name):
                model.close()

    @contextlib.contextmanager
    def _version(self, request: Message) -> Iterator[LoadedVersion]:
        """Yields the version that a request names; it stays loaded within the block."""
        _require_model_spec(request)
        spec = request.model_spec
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        with contextlib.ExitStack() as stack:
            version = None
            while version is None:
                model = self._models.get(spec.name)
                if model is None:
                    number = spec.version.value if spec.HasField("version") else None
                    raise servable_not_found(spec.name, number)
                try:
                    version = stack.enter_context(model.version(spec))
                except tf.errors.UnavailableError:
                    if self._models.get(spec.name) is model:
                        raise
                    # A new configuration has just replaced this model.
            yield version


def _require_model_spec(request: Message) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def _checked_configs(config: Config) -> dict[str, model_server_config_pb2.ModelConfig]:
    """Returns the configuration of each model by name."""
    configs = {}
    for model in config.model_config_list.config:
        if not model.name or not model.base_path:
            raise ValueError(
                f"Each model must have a name and a base_path, but one has {model.name!r} and "
                f"{model.base_path!r}."
            )
        if model.name in configs:
            raise ValueError(f"Two models are called {model.name!r}.")
        configs[model.name] = model
    return configs
