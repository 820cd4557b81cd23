"""The arrow from `saved_models` to a model server: the embedded one.

It answers as TF Serving does: by its protocols (gRPC here, REST in `rest.py`), with its status
codes and messages. It loads and runs a model as TF Serving does, in a TF1-style session, so that
what fails there fails here.
"""

import contextlib
import copy
import functools
import math
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from absl import logging
from elmo_tf.saved_models.rest import MAX_REQUEST_BYTES, RestServer
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

# What a signature may be called for and still be asked for a prediction.
_METHOD_NAMES = tuple(
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)
DEFAULT_SIGNATURE = "serving_default"


def serve(
    directory: str | os.PathLike,
    name: str = "elmo",
    port: int = 8500,
    rest_port: int | None = 8501,
    host: str = "127.0.0.1",
) -> "Server":
    """Serves the newest version of an exported model, without blocking.

    A request that names another version in `directory` gets that one; it is loaded when first
    asked for.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`).
        name: what requests call the model.
        port: of gRPC. 0 picks a free one.
        rest_port: of REST. 0 picks a free one, `None` means no REST.
        host: address to listen on. The default is reached from this machine only; `"0.0.0.0"`
            is reached from everywhere. There is neither encryption nor a check of who asks.

    Returns:
        A `Server` that is ready to answer. Keep it: the server stops when nothing refers to it.

    Raises:
        FileNotFoundError: `directory` does not exist or holds no version.
        OSError: a port cannot be listened on.
        ValueError: a port is not in 0 … 65535.
        tf.errors.OpError: the newest version cannot be loaded.
    """
    versions = ModelVersions(directory, name)
    _check_port(host, port)
    rest = None
    try:
        if rest_port is not None:
            _check_port(host, rest_port)
            rest = RestServer(versions, host, rest_port)
        versions.load_latest()
        grpc_server, port = _start_grpc(versions, host, port)
    except BaseException:
        versions.close()
        if rest is not None:
            rest.stop(grace=0)
        raise
    if rest is not None:
        rest.start()
    logging.info("Serving %s from %s: gRPC on %s:%d.", name, directory, host, port)
    return Server(versions, grpc_server, port, rest)


class Server:
    """A running server, as `serve` returns it. As a context manager it stops at the end.

    Attributes:
        port: of gRPC.
        rest_port: of REST, or `None`.
    """

    def __init__(
        self,
        versions: "ModelVersions",
        grpc_server: grpc.Server,
        port: int,
        rest: RestServer | None,
    ):
        self.port = port
        self.rest_port = None if rest is None else rest.port
        self._versions = versions
        self._grpc_server = grpc_server
        self._rest = rest
        self._stopped = threading.Event()

    def stop(self, grace: float = 30.0) -> None:
        """Takes no more requests, lets the running ones finish, and releases the ports.

        Args:
            grace: seconds to wait for running requests; those left after it are cancelled.
        """
        grpc_stopped = self._grpc_server.stop(grace)
        if self._rest is not None:
            self._rest.stop(grace)
        grpc_stopped.wait()
        self._versions.close()
        self._stopped.set()

    def wait(self) -> None:
        """Blocks until the server has been stopped."""
        self._stopped.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class ModelVersions:
    """The versions of one model: finds them, loads them, and answers requests for them.

    Requests and answers are TF Serving's protos. A request that fails raises a `tf.errors.OpError`;
    its code and message go to whoever asked.

    Args:
        directory: holds the versions in numbered folders.
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
        _require_model_spec(request)
        version = self._find(request.model_spec)
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
        response = predict_pb2.PredictResponse(model_spec=_model_spec(self._name, version, name))
        for alias, array in zip(aliases, arrays, strict=True):
            response.outputs[alias].CopyFrom(_tensor_proto(array, signature.outputs[alias].dtype))
        return response

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        _require_model_spec(request)
        if not request.metadata_field:
            message = "GetModelMetadataRequest must specify at least one metadata_field"
            raise tf.errors.InvalidArgumentError(None, None, message)
        for field in request.metadata_field:
            if field != "signature_def":
                message = f"Metadata field {field} is not supported"
                raise tf.errors.InvalidArgumentError(None, None, message)
        version = self._find(request.model_spec)
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.signatures)
        response = get_model_metadata_pb2.GetModelMetadataResponse(
            model_spec=_model_spec(self._name, version)
        )
        response.metadata["signature_def"].Pack(signatures)
        return response

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Answers `ModelService.GetModelStatus`. A version not asked for yet is in `START`."""
        _require_model_spec(request)
        spec = request.model_spec
        found = set(_versions_in(self._directory)) | set(self._loaded)
        if spec.name != self._name:
            found.clear()
        if spec.HasField("version"):
            found &= {spec.version.value}
            message = f"Could not find version {spec.version.value} of model {spec.name}"
        else:
            message = f"Could not find any versions of model {spec.name}"
        if not found:
            raise tf.errors.NotFoundError(None, None, message)
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
        self, spec: model_pb2.ModelSpec
    ) -> Mapping[str, meta_graph_pb2.TensorInfo]:
        """Returns the inputs of the signature that `spec` names, by their names."""
        version = self._find(spec)
        name = spec.signature_name or DEFAULT_SIGNATURE
        if name not in version.signatures:
            message = f'Serving signature name: "{name}" not found in signature def'
            raise tf.errors.InvalidArgumentError(None, None, message)
        return version.signatures[name].inputs

    def close(self) -> None:
        """Closes all sessions. Requests from now on are refused."""
        with self._lock:
            self._closed = True
            for version in self._loaded.values():
                version.close()
            self._loaded.clear()

    def _find(self, spec: model_pb2.ModelSpec) -> "_Version":
        if not spec.name:
            raise tf.errors.InvalidArgumentError(None, None, "ModelSpec has no name specified.")
        if spec.HasField("version_label"):
            message = f"Unrecognized servable version label: {spec.version_label}"
            raise tf.errors.InvalidArgumentError(None, None, message)
        number, asked = self._latest, f"Latest({spec.name})"
        if spec.HasField("version"):
            number, asked = spec.version.value, f"Specific({spec.name}, {spec.version.value})"
        not_found = tf.errors.NotFoundError(None, None, f"Servable not found for request: {asked}")
        if spec.name != self._name:
            raise not_found
        version = self._loaded.get(number)
        if version is not None:
            return version
        if number not in _versions_in(self._directory):
            raise not_found
        try:
            return self._load(number)
        except tf.errors.UnavailableError:
            raise
        except Exception as error:
            logging.error("Cannot load version %d of %s: %s", number, self._name, error)
            raise not_found from error

    def _load(self, number: int) -> "_Version":
        with self._lock:
            if self._closed:
                raise tf.errors.UnavailableError(None, None, "The server is shutting down.")
            if number not in self._loaded:
                self._loaded[number] = _Version(number, _versions_in(self._directory)[number])
            return self._loaded[number]


class _Version:
    """One version of a model, in a session of its own, as TF Serving loads it."""

    def __init__(self, number: int, path: Path):
        self.number = number
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=self._graph)
        try:
            with self._graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self._session, [tf.saved_model.SERVING], os.fspath(path)
                )
        except BaseException:
            self._session.close()
            raise
        # A copy, so that the graph that came with it need not stay in memory.
        self.signatures = copy.deepcopy(dict(meta_graph.signature_def))

    def run(self, feeds: Mapping[str, np.ndarray], fetches: list[str]) -> list[Any]:
        """Computes the tensors named `fetches`.

        `Session.run` would first convert what is fed to the placeholder's type and check its
        shape. TF Serving does neither, so this calls what lies below `Session.run`.
        """
        tensor = self._graph.get_tensor_by_name
        return self._session._call_tf_sessionrun(
            None,
            {tensor(name)._as_tf_output(): array for name, array in feeds.items()},
            [tensor(name)._as_tf_output() for name in fetches],
            [],
            None,
        )

    def close(self) -> None:
        self._session.close()


def _require_versions(directory: Path) -> dict[int, Path]:
    expected = f"Expected a folder with numbered versions, such as {directory / '1/saved_model.pb'}"
    if not directory.is_dir():
        raise FileNotFoundError(f"Cannot serve {directory}: no such folder. {expected}.")
    versions = _versions_in(directory)
    if versions:
        return versions
    if (directory / "saved_model.pb").exists():
        raise FileNotFoundError(
            f"Cannot serve {directory}: it is itself one version of a model. Serve the folder "
            f"above it; the name of this one must be a number."
        )
    raise FileNotFoundError(f"Cannot serve {directory}: it holds no version. {expected}.")


def _versions_in(directory: Path) -> dict[int, Path]:
    paths = directory.glob("*/saved_model.pb")
    return {int(path.parent.name): path.parent for path in paths if _is_number(path.parent.name)}


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _require_model_spec(request: Message) -> None:
    if not request.HasField("model_spec"):
        raise tf.errors.InvalidArgumentError(None, None, "Missing ModelSpec")


def _model_spec(name: str, version: "_Version", signature_name: str = "") -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=name, signature_name=signature_name)
    spec.version.value = version.number
    return spec


def _feeds(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, tensor_pb2.TensorProto]
) -> dict[str, np.ndarray]:
    """Checks the inputs of a request; returns them as arrays by the name of their tensor."""
    given, wanted = set(inputs), set(signature.inputs)
    if len(given) != len(wanted):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"input size does not match signature: {len(given)}!={len(wanted)} "
            f"len({_braces(given)}) != len({_braces(wanted)}). "
            f"Sent extra: {_braces(given - wanted)}. "
            f"Missing but required: {_braces(wanted - given)}.",
        )
    feeds = {}
    for alias, info in sorted(signature.inputs.items()):
        if alias not in inputs:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"Signature input alias: {alias}(feed name: {info.name}) not found in request and "
                f"no default value provided. Inputs expected to be in the request "
                f"{_braces(given)}, or default input alias set: ",
            )
        feeds[info.name] = _array(alias, inputs[alias])
    return feeds


def _output_aliases(signature: meta_graph_pb2.SignatureDef, output_filter: list[str]) -> list[str]:
    for position, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            message = (
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {_braces(signature.outputs)}."
            )
            raise tf.errors.InvalidArgumentError(None, None, message)
        if alias in output_filter[:position]:
            message = f"duplicate output tensor alias: {alias}"
            raise tf.errors.InvalidArgumentError(None, None, message)
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
    raise tf.errors.InvalidArgumentError(None, None, f"tensor parsing error: {alias}")


# The field of a TensorProto that holds the values of a type, for the types that models answer with.
_VALUE_FIELDS = {
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def _tensor_proto(value: Any, dtype: int) -> tensor_pb2.TensorProto:
    """Returns what a session gave as TF Serving sends it: in the field of its type."""
    dtype = tf.as_dtype(dtype)
    array = np.asarray(value, dtype=dtype.as_numpy_dtype)
    if dtype == tf.float32:
        # Filling `float_val` takes 0.1 µs a number. Its bytes on the wire are those of
        # `tensor_content`, but for the number of the field: 5 instead of 4 in the tag.
        content = tensor_pb2.TensorProto(tensor_content=array.astype("<f4", copy=False).tobytes())
        proto = tensor_pb2.TensorProto.FromString(b"\x2a" + content.SerializeToString()[1:])
    elif dtype in _VALUE_FIELDS:
        proto = tensor_pb2.TensorProto()
        getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    else:
        return tf.make_tensor_proto(array, dtype)
    proto.dtype = dtype.as_datatype_enum
    proto.tensor_shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
    return proto


def _start_grpc(versions: ModelVersions, host: str, port: int) -> tuple[grpc.Server, int]:
    server = grpc.server(
        # As many threads as TF Serving has; a running session holds no lock of Python's.
        futures.ThreadPoolExecutor(4 * (os.cpu_count() or 1), thread_name_prefix="serve"),
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
            ("grpc.max_send_message_length", -1),
        ],
    )
    server.add_generic_rpc_handlers(
        [
            _service(
                "PredictionService",
                Predict=(versions.predict, predict_pb2.PredictRequest),
                GetModelMetadata=(
                    versions.metadata,
                    get_model_metadata_pb2.GetModelMetadataRequest,
                ),
            ),
            _service(
                "ModelService",
                GetModelStatus=(versions.status, get_model_status_pb2.GetModelStatusRequest),
            ),
        ]
    )
    try:
        port = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise _port_error(host, port, "the address is in use") from error
    server.start()
    return server, port


def _service(
    name: str, **methods: tuple[Callable[[Any], Message], type[Message]]
) -> grpc.GenericRpcHandler:
    """Returns the gRPC service `name`. Methods it does not have are UNIMPLEMENTED."""
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            functools.partial(_answer, function),
            request_deserializer=request_type.FromString,
            response_serializer=lambda response: response.SerializeToString(),
        )
        for method, (function, request_type) in methods.items()
    }
    return grpc.method_handlers_generic_handler(f"tensorflow.serving.{name}", handlers)


_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MAX_MESSAGE = 1024  # characters; TF Serving's limit


def _answer(
    function: Callable[[Any], Message], request: Message, context: grpc.ServicerContext
) -> Message:
    if not context.is_active():
        context.abort(grpc.StatusCode.CANCELLED, "The caller has gone before its turn came.")
    try:
        return function(request)
    except tf.errors.OpError as error:
        message = error.message
        if len(message) > _MAX_MESSAGE:
            message = message[:_MAX_MESSAGE] + "...TRUNCATED"
        context.abort(_STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN), message)
    except Exception as error:
        logging.exception("A request failed.")
        context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")


def _check_port(host: str, port: int) -> None:
    """Raises a plain error where gRPC would only say that it failed, and log why."""
    if not 0 <= port <= 65535:
        raise ValueError(f"A port is 0 … 65535, and 0 picks a free one, but {port} was given.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise _port_error(host, port, error.strerror) from error


def _port_error(host: str, port: int, reason: str | None) -> OSError:
    return OSError(
        f"Cannot listen on {host}, port {port}: {reason}. Choose another port; 0 picks a free one."
    )
