"""All models of a server: requests ─► the version that they name ─► answers."""

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
    model_pb2,
    predict_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from elmo_tf.saved_models.server.batching import Batching
from elmo_tf.saved_models.server.errors import invalid, not_found, shortened, unavailable
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.models import Model
from elmo_tf.saved_models.server.sessions import LoadedVersion

Config = model_server_config_pb2.ModelServerConfig
Infos = Mapping[str, meta_graph_pb2.TensorInfo]


def config_of(directory: str | os.PathLike, name: str) -> Config:
    """The configuration of one model, whose newest version is served."""
    config = Config()
    config.model_config_list.config.add(name=name, base_path=os.fspath(directory))
    return config


class Catalogue:
    """The models of a server. A request that is refused raises a `tf.errors.OpError`.

    Args:
        config: name, folder, version policy and labels of each model, as TF Serving takes them.
        limits: of a request.
        batching: how requests are computed together; `None` means each by itself.
        metrics: are told of loads and batches.

    Raises:
        FileNotFoundError: a folder does not exist or holds no version.
        ValueError: a model has no name or no folder, or two have one name.
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
        _check(config)
        configs = config.model_config_list.config
        self._models = {one.name: Model(one, self._load) for one in configs}
        self._reloading = threading.Lock()
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def names(self) -> list[str]:
        """What the models are called."""
        return sorted(self._models)

    def load(self) -> None:
        """Loads all models. Raises what `Model.load` raises if one cannot be."""
        for model in self._models.values():
            model.load()

    def watch(self, seconds: float) -> None:
        """From now on looks for new versions, every so many seconds, in a thread."""
        self._watch = threading.Thread(
            target=self._refresh_every, args=(seconds,), name="versions", daemon=True
        )
        self._watch.start()

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        is_awaited: Callable[[], bool] = lambda: True,
        complete: Callable[[Infos], None] | None = None,
    ) -> predict_pb2.PredictResponse:
        """Answers `PredictionService.Predict`.

        Args:
            request: as it came.
            is_awaited: whether who asked still waits.
            complete: puts the inputs into `request`, if they were not written as protos, once it
                is known which ones the signature has.
        """
        with self._version(request) as (model, version):
            if complete is not None:
                complete(version.inputs_of(request))
            response = version.answer(request, is_awaited)
            _set_spec(response.model_spec, model, version)
        return response

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        with self._version(request) as (model, version):
            if not request.metadata_field:
                raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != "signature_def":
                    raise invalid(f"Metadata field {shortened(field)} is not supported")
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            _set_spec(response.model_spec, model, version)
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
        asked = f"any versions of model {shortened(spec.name)}"
        model = self._models.get(spec.name)
        states = {} if model is None else model.states()
        if spec.HasField("version"):
            asked = f"version {spec.version.value} of model {shortened(spec.name)}"
            states = {n: one for n, one in states.items() if n == spec.version.value}
        if not states:
            raise not_found(f"Could not find {asked}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, version in sorted(states.items(), reverse=True):
            # Naming the code is what makes `status` present in the answer.
            status = {"error_code": 0, "error_message": ""}
            if version.error is not None:
                code = getattr(version.error, "error_code", 2)
                status = {"error_code": code, "error_message": shortened(str(version.error))}
            response.model_version_status.add(version=number, state=version.state, status=status)
        return response

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest
    ) -> model_management_pb2.ReloadConfigResponse:
        """Answers `ModelService.HandleReloadConfigRequest`: these models, and no others.

        All is loaded before anything is let go. If something is wrong, all stays as it was.
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
                self._take_over(request.config)
            except (OSError, ValueError) as error:
                raise invalid(str(error)) from error
        response = model_management_pb2.ReloadConfigResponse()
        response.status.error_code = 0
        return response

    def refresh(self) -> None:
        """Looks for new versions now."""
        for model in list(self._models.values()):
            try:
                model.refresh()
            except Exception:
                logging.exception("Cannot look for versions of %s.", model.name)

    def close(self) -> None:
        """Closes all sessions. Requests from now on are refused."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join()
        with self._reloading:
            for model in self._models.values():
                model.close()

    def _refresh_every(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            self.refresh()

    def _load(self, number: int, path: Path) -> LoadedVersion:
        begun = time.monotonic()
        is_loaded = False
        try:
            version = LoadedVersion(number, path, self.limits, self._batching, self._metrics)
            is_loaded = True
        finally:
            self._metrics.count_load(str(path), is_loaded, time.monotonic() - begun)
        logging.info("Loaded %s in %.1f s.", path, time.monotonic() - begun)
        return version

    def _take_over(self, config: Config) -> None:
        _check(config)
        before, after = self._models, {}
        configs = {one.name: one for one in config.model_config_list.config}
        try:
            for name, one in configs.items():
                stays = name in before and before[name].directory == Path(one.base_path)
                after[name] = before[name] if stays else Model(one, self._load)
                after[name].prepare(one)
        except BaseException:
            for name, model in after.items():
                if model is before.get(name):
                    model.refresh()  # Lets go what was loaded in vain.
                else:
                    model.close()
            raise
        self._models = after
        for name, model in after.items():
            model.follow(configs[name])
        for name, model in before.items():
            if model is not after.get(name):
                model.close()

    @contextlib.contextmanager
    def _version(self, request: Message) -> Iterator[tuple[Model, LoadedVersion]]:
        """The version that a request names, which stays loaded within the block."""
        _require_model_spec(request)
        spec = request.model_spec
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        with contextlib.ExitStack() as stack:
            version = None
            while version is None:
                model = self._models.get(spec.name)
                if model is None:
                    raise not_found(f"Servable not found for request: {_asked(spec)}")
                try:
                    version = stack.enter_context(model.version(spec))
                except tf.errors.UnavailableError:
                    if self._models.get(spec.name) is model:
                        raise
                    # Another configuration has just taken the place of this one.
            yield model, version


def _asked(spec: model_pb2.ModelSpec) -> str:
    if spec.HasField("version"):
        return f"Specific({shortened(spec.name)}, {spec.version.value})"
    return f"Latest({shortened(spec.name)})"


def _set_spec(spec: model_pb2.ModelSpec, model: Model, version: LoadedVersion) -> None:
    spec.name = model.name
    spec.version.value = version.number


def _require_model_spec(request: Message) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def _check(config: Config) -> None:
    names = [one.name for one in config.model_config_list.config]
    for one in config.model_config_list.config:
        if not one.name or not one.base_path:
            raise ValueError(
                f"Each model must have a name and a base_path, but one has {one.name!r} and "
                f"{one.base_path!r}."
            )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two models are called {name!r}.")
