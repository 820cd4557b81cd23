"""The versions of a model ─► answers: found in their folders, loaded when they are asked for."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf
from absl import logging
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.serving.sessions import DEFAULT_SIGNATURE, LoadedVersion, invalid


class ModelVersions:
    """The versions of one model: finds them, loads them, and answers requests for them.

    A version is loaded when first asked for. A request that is refused raises a
    `tf.errors.OpError`; its code and message go to whoever asked.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`).
        name: what requests call the model.

    Raises:
        FileNotFoundError: `directory` does not exist or holds no version.
    """

    def __init__(self, directory: str | os.PathLike, name: str):
        self._directory = Path(directory)
        self._name = name
        self._latest = max(_require_versions(self._directory))
        self._loaded: dict[int, LoadedVersion] = {}
        self._lock = threading.Lock()
        self._closed = False

    def load_latest(self) -> None:
        """Loads the newest version. Raises what TensorFlow raises when it cannot."""
        self._load(self._latest)

    def predict(self, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
        """Answers `PredictionService.Predict`."""
        version = self._find(request)
        response = version.answer(request)
        response.model_spec.CopyFrom(self._spec_of(version, response.model_spec.signature_name))
        return response

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        version = self._find(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse(
            model_spec=self._spec_of(version)
        )
        response.metadata["signature_def"].Pack(
            get_model_metadata_pb2.SignatureDefMap(signature_def=version.signatures)
        )
        return response

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Answers `ModelService.GetModelStatus`. A version not asked for yet is in `START`."""
        _require_model_spec(request)
        spec = request.model_spec
        asked = f"any versions of model {spec.name}"
        found = set(versions_in(self._directory)) | set(self._loaded)
        if spec.name != self._name:
            found = set()
        if spec.HasField("version"):
            asked = f"version {spec.version.value} of model {spec.name}"
            found &= {spec.version.value}
        if not found:
            raise tf.errors.NotFoundError(None, None, f"Could not find {asked}")
        response = get_model_status_pb2.GetModelStatusResponse()
        states = get_model_status_pb2.ModelVersionStatus
        for number in sorted(found, reverse=True):
            state = states.AVAILABLE if number in self._loaded else states.START
            # Naming the code is what makes `status` present in the answer.
            response.model_version_status.add(
                version=number, state=state, status={"error_code": 0, "error_message": ""}
            )
        return response

    def signature_inputs(
        self, request: predict_pb2.PredictRequest
    ) -> Mapping[str, meta_graph_pb2.TensorInfo]:
        """Returns the inputs of the signature that `request` asks for, by their names."""
        version = self._find(request)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in version.signatures:
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        return version.signatures[name].inputs

    def close(self) -> None:
        """Closes all sessions. Requests from now on are refused."""
        with self._lock:
            self._closed = True
            for version in self._loaded.values():
                version.close()
            self._loaded.clear()

    def _find(self, request: Message) -> LoadedVersion:
        """Returns the version that `request` names, loaded."""
        _require_model_spec(request)
        spec = request.model_spec
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        if spec.HasField("version_label"):
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        number, asked = self._latest, f"Latest({spec.name})"
        if spec.HasField("version"):
            number, asked = spec.version.value, f"Specific({spec.name}, {spec.version.value})"
        not_found = tf.errors.NotFoundError(None, None, f"Servable not found for request: {asked}")
        if spec.name != self._name:
            raise not_found
        if number not in self._loaded and number not in versions_in(self._directory):
            raise not_found
        try:
            return self._load(number)
        except tf.errors.UnavailableError:
            raise
        except Exception as error:
            logging.error("Cannot load version %d of %s: %s", number, self._name, error)
            raise not_found from error

    def _load(self, number: int) -> LoadedVersion:
        version = self._loaded.get(number)  # Without the lock: another version may be loading.
        if version is not None:
            return version
        with self._lock:
            if self._closed:
                raise tf.errors.UnavailableError(None, None, "The server is shutting down.")
            if number not in self._loaded:
                self._loaded[number] = LoadedVersion(number, versions_in(self._directory)[number])
            return self._loaded[number]

    def _spec_of(self, version: LoadedVersion, signature_name: str = "") -> model_pb2.ModelSpec:
        spec = model_pb2.ModelSpec(name=self._name, signature_name=signature_name)
        spec.version.value = version.number
        return spec


def _require_versions(directory: Path) -> dict[int, Path]:
    expected = f"Expected a folder with numbered versions, such as {directory / '1/saved_model.pb'}"
    if not directory.is_dir():
        raise FileNotFoundError(f"Cannot serve {directory}: no such folder. {expected}.")
    versions = versions_in(directory)
    if versions:
        return versions
    if (directory / "saved_model.pb").exists():
        raise FileNotFoundError(
            f"Cannot serve {directory}: it is itself one version of a model. Serve the folder "
            f"above it; the name of this one must be a number."
        )
    raise FileNotFoundError(f"Cannot serve {directory}: it holds no version. {expected}.")


def _require_model_spec(request: Message) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
