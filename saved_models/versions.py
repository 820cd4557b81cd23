"""The arrow from an exported model to its answers: the versions of a model, each in a session.

A model is loaded and run as TF Serving does it, in a TF1-style session, so that what fails there
fails here. Requests and answers are TF Serving's protos.
"""

import contextlib
import copy
import math
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.operations import register_operations

MAX_REQUEST_BYTES = 64 * 1024 * 1024
DEFAULT_SIGNATURE = "serving_default"

# What a signature may be called for and still be asked for a prediction.
_METHOD_NAMES = tuple(
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)


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
        self._loaded: dict[int, _Version] = {}
        self._lock = threading.Lock()
        self._closed = False

    def load_latest(self) -> None:
        """Loads the newest version. Raises what TensorFlow raises when it cannot."""
        self._load(self._latest)

    def predict(self, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
        """Answers `PredictionService.Predict`."""
        version = self._find(request)
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in version.signatures:
            message = f'Serving signature key "{name}" not found.'
            raise tf.errors.FailedPreconditionError(None, None, message)
        signature = version.signatures[name]
        if signature.method_name not in _METHOD_NAMES:
            message = (
                "Expected prediction signature method_name to be one of "
                f"{_braces(_METHOD_NAMES)}. Was: {signature.method_name}"
            )
            raise tf.errors.InternalError(None, None, message)
        feeds = _feeds(signature, request.inputs)
        aliases = _output_aliases(signature, request.output_filter)
        arrays = version.run(feeds, [signature.outputs[alias].name for alias in aliases])
        response = predict_pb2.PredictResponse(model_spec=self._spec_of(version, name))
        for alias, array in zip(aliases, arrays, strict=True):
            response.outputs[alias].CopyFrom(_tensor_proto(array, signature.outputs[alias].dtype))
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

    def _find(self, request: Message) -> "_Version":
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

    def _load(self, number: int) -> "_Version":
        version = self._loaded.get(number)  # Without the lock: another version may be loading.
        if version is not None:
            return version
        with self._lock:
            if self._closed:
                raise tf.errors.UnavailableError(None, None, "The server is shutting down.")
            if number not in self._loaded:
                self._loaded[number] = _Version(number, versions_in(self._directory)[number])
            return self._loaded[number]

    def _spec_of(self, version: "_Version", signature_name: str = "") -> model_pb2.ModelSpec:
        spec = model_pb2.ModelSpec(name=self._name, signature_name=signature_name)
        spec.version.value = version.number
        return spec


class _Version:
    """One version of a model, in a session of its own."""

    def __init__(self, number: int, path: Path):
        self.number = number
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            register_operations(path)
            with self._session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self._session, [tf.saved_model.SERVING], os.fspath(path)
                )
        except BaseException:
            self._session.close()
            raise
        # A copy, so that the graph that came with it need not stay in memory.
        self.signatures = copy.deepcopy(dict(meta_graph.signature_def))

    def run(self, feeds: Mapping[str, np.ndarray], fetches: list[str]) -> list[np.ndarray]:
        """Computes the tensors named `fetches`."""
        try:
            return self._session.run(fetches, feeds)
        except ValueError as error:  # The shape of what is fed does not fit.
            raise invalid(str(error)) from error

    def close(self) -> None:
        self._session.close()


def invalid(message: str) -> tf.errors.InvalidArgumentError:
    """Returns the error of a request that is wrong in itself."""
    return tf.errors.InvalidArgumentError(None, None, message)


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


def _feeds(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, tensor_pb2.TensorProto]
) -> dict[str, np.ndarray]:
    """Checks the inputs of a request; returns them as arrays by the name of their tensor."""
    given, wanted = set(inputs), set(signature.inputs)
    if given != wanted:
        raise invalid(
            f"inputs do not match signature: {_braces(given)} != {_braces(wanted)}. "
            f"Sent extra: {_braces(given - wanted)}. "
            f"Missing but required: {_braces(wanted - given)}."
        )
    feeds = {}
    for alias, info in signature.inputs.items():
        feeds[info.name] = _array(alias, inputs[alias])
        # A session fed from Python would convert it; TF Serving does not.
        if inputs[alias].dtype != info.dtype:
            expected, received = (tf.as_dtype(one.dtype).name for one in (info, inputs[alias]))
            raise invalid(f"Expects {alias} to be {expected} but {received} is provided")
    return feeds


def _output_aliases(signature: meta_graph_pb2.SignatureDef, output_filter: list[str]) -> list[str]:
    for position, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {_braces(signature.outputs)}."
            )
        if alias in output_filter[:position]:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return list(output_filter) or sorted(signature.outputs)


def _braces(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"


def _array(alias: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    # One value stands for a tensor that is filled with it: a small request must not fill memory.
    fits = all(size >= 0 for size in sizes) and math.prod(sizes) <= MAX_REQUEST_BYTES
    if fits and not proto.tensor_shape.unknown_rank:
        with contextlib.suppress(TypeError, ValueError):
            return tf.make_ndarray(proto)
    raise invalid(f"tensor parsing error: {alias}")


# The field of a TensorProto that holds the values of a type. Clients in other languages read it.
_VALUE_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def _tensor_proto(value: np.ndarray | bytes, dtype: int) -> tensor_pb2.TensorProto:
    """Returns what a session gave as TF Serving sends it: in the field of its type."""
    dtype = tf.as_dtype(dtype)
    array = np.asarray(value, dtype=dtype.as_numpy_dtype)
    if dtype not in _VALUE_FIELDS:
        return tf.make_tensor_proto(array, dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    return proto
