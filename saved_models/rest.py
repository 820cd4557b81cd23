"""The arrow from `saved_models` to a model server, in JSON: TF Serving's REST interface.

    GET  /v1/models/{model}[/versions/{version}]            → the states of its versions
    GET  /v1/models/{model}[/versions/{version}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{version}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": whole tensors}     → {"outputs": whole tensors}

Bytes that are not UTF-8 are written as {"b64": "…"}. Errors are {"error": "…"}.
"""

import base64
import contextlib
import json
import math
import re
import socket
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from http import HTTPStatus, server
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

if TYPE_CHECKING:
    from elmo_tf.saved_models.server import ModelVersions

MAX_REQUEST_BYTES = 64 * 1024 * 1024


class RestServer:
    """Listens from the start; answers from `start()` to `stop()`.

    Args:
        model: who answers.
        host: address to listen on.
        port: 0 picks a free one.

    Attributes:
        port: the port that it listens on.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(self, model: "ModelVersions", host: str, port: int):
        self._server = _HTTPServer(model, host, port)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="rest", daemon=True
        )

    def start(self) -> None:
        """Begins to answer, in threads of its own."""
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Takes no more requests, waits up to `grace` seconds for the running ones."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._server.wait_until_idle(grace)


class _HTTPServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model: "ModelVersions", host: str, port: int):
        self.model = model
        self._num_running = 0
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Marks a request as running, for `wait_until_idle`."""
        with self._changed:
            self._num_running += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_running -= 1
                self._changed.notify_all()

    def wait_until_idle(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._num_running == 0, timeout)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logging.vlog(1, "The connection to %s broke.", client_address, exc_info=True)


# By the numbers of `tf.errors`, which are gRPC's.
_HTTP_STATUS = {
    tf.errors.CANCELLED: 499,
    tf.errors.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    tf.errors.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
    tf.errors.NOT_FOUND: HTTPStatus.NOT_FOUND,
    tf.errors.ALREADY_EXISTS: HTTPStatus.CONFLICT,
    tf.errors.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    tf.errors.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    tf.errors.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    tf.errors.ABORTED: HTTPStatus.CONFLICT,
    tf.errors.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
    tf.errors.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
    tf.errors.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    tf.errors.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
}


class _Handler(server.BaseHTTPRequestHandler):
    # 1.1, so that a client that asks whether it may send a large body gets its answer.
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds without a byte, then the connection is closed

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        with contextlib.ExitStack() as running:
            try:
                body = self.rfile.read(self._content_length())
                running.enter_context(self.server.running())
                path = urllib.parse.urlsplit(self.path).path
                content = _answer(self.server.model, self.command, path, body)
                status = HTTPStatus.OK
            except tf.errors.OpError as error:
                content = {"error": error.message}
                status = _HTTP_STATUS.get(error.error_code, HTTPStatus.INTERNAL_SERVER_ERROR)
            except (ConnectionError, TimeoutError):
                raise
            except Exception as error:
                logging.exception("A request failed.")
                content = {"error": f"{type(error).__name__}: {error}"}
                status = HTTPStatus.INTERNAL_SERVER_ERROR
            self._reply(status, content)

    def _content_length(self) -> int:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            raise _invalid("The request must state its length: Content-Length is missing.")
        if int(length) > MAX_REQUEST_BYTES:
            raise _invalid(f"The request has {length} bytes, more than {MAX_REQUEST_BYTES}.")
        return int(length)

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        text = json.dumps(content, ensure_ascii=False)
        body = text.encode("utf-8", "surrogateescape")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        # An idle connection that is kept would have nobody to answer it after `stop`.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses by itself is refused in JSON too."""
        self._reply(code, {"error": message or HTTPStatus(code).phrase})

    def log_message(self, format: str, *args: Any) -> None:
        logging.vlog(1, format, *args)


_MODEL = r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+))?"
_POST_PATH = re.compile(_MODEL + r":(classify|regress|predict)", re.IGNORECASE)
_GET_PATH = re.compile(_MODEL + r"(/metadata)?", re.IGNORECASE)


def _answer(model: "ModelVersions", method: str, path: str, body: bytes) -> dict[str, Any]:
    if not path.lower().startswith("/v1/"):
        raise tf.errors.NotFoundError(
            None, None, f"Not found: {path}. Paths begin with /v1/models."
        )
    found = (_POST_PATH if method == "POST" else _GET_PATH).fullmatch(path)
    if found is None:
        raise _invalid(f"Malformed request: {method} {path}")
    name, version, action = found.groups()
    if name is None:
        raise _invalid("Missing model name in request.")
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name))
    if version is not None:
        if int(version) >= 2**63:
            raise _invalid(f"Failed to convert version: {version} to numeric.")
        spec.version.value = int(version)
    if method == "POST":
        if action.lower() != "predict":
            message = f"This server predicts; it does not {action.lower()}."
            raise tf.errors.UnimplementedError(None, None, message)
        return _predict(model, spec, body)
    return _describe(model, spec) if action else _status(model, spec)


def _status(model: "ModelVersions", spec: model_pb2.ModelSpec) -> dict[str, Any]:
    return _as_dict(model.status(get_model_status_pb2.GetModelStatusRequest(model_spec=spec)))


def _describe(model: "ModelVersions", spec: model_pb2.ModelSpec) -> dict[str, Any]:
    response = model.metadata(
        get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        )
    )
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return {
        "model_spec": _as_dict(response.model_spec),
        "metadata": {"signature_def": _as_dict(signatures)},
    }


def _as_dict(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _predict(model: "ModelVersions", spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
    document = _parse(body)
    signature_name = document.get("signature_name", "")
    if not isinstance(signature_name, str):
        raise _invalid(
            f"JSON Value: {_shown(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    spec.signature_name = signature_name
    infos = model.signature_inputs(spec)
    if not infos:
        raise _invalid(f"Failed to get input map for signature: {signature_name or 'DEFAULT'}")
    in_rows = "instances" in document
    if in_rows and "inputs" in document:
        raise _invalid(
            f"JSON Value: {_shown(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if not in_rows and "inputs" not in document:
        raise _invalid("Missing 'inputs' or 'instances' key")
    try:
        if in_rows:
            tensors = _tensors_of_rows(document["instances"], infos)
        else:
            tensors = _tensors_of_columns(document["inputs"], infos)
    except RecursionError as error:
        raise _invalid("The JSON lists are nested too deeply.") from error
    request = predict_pb2.PredictRequest(model_spec=spec, inputs=tensors)
    outputs = {
        alias: tf.make_ndarray(tensor) for alias, tensor in model.predict(request).outputs.items()
    }
    return {"predictions": _rows(outputs)} if in_rows else {"outputs": _columns(outputs)}


def _parse(body: bytes) -> dict[str, Any]:
    try:
        # Bytes that are not UTF-8 pass through, to the model or to an error that shows them.
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        reason = error if body else "The document is empty"
        raise _invalid(f"JSON Parse error: {reason}") from error
    if not isinstance(document, dict):
        raise _invalid(f"JSON Value: {_shown(document)} Is not object")
    return document


Infos = Mapping[str, meta_graph_pb2.TensorInfo]


def _tensors_of_columns(value: Any, infos: Infos) -> dict[str, tensor_pb2.TensorProto]:
    if isinstance(value, dict) and not _is_base64(value):
        for name in sorted(infos):
            if name not in value:
                raise _invalid(f"Missing named input: {name} in 'inputs' object.")
        values = value
    elif len(infos) > 1:
        raise _invalid(
            "inputs is a plain value/list, but expecting an object as multiple input tensors "
            "are required"
        )
    else:
        values = dict.fromkeys(infos, value)
    return {
        name: _proto(_array(values[name], tf.as_dtype(info.dtype)), info.dtype)
        for name, info in infos.items()
    }


def _tensors_of_rows(rows: Any, infos: Infos) -> dict[str, tensor_pb2.TensorProto]:
    if not isinstance(rows, list):
        raise _invalid(f"JSON Value: {_shown(rows)} Expecting 'instances' to be an list/array")
    if not rows:
        raise _invalid("No values in 'instances' array")
    named = isinstance(rows[0], dict) and not _is_base64(rows[0])
    if not named and len(infos) > 1:
        raise _invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "are required"
        )
    (only_name, *_) = infos
    arrays: dict[str, list[np.ndarray]] = {name: [] for name in infos}
    for position, row in enumerate(rows):
        if named != (isinstance(row, dict) and not _is_base64(row)):
            expected, got = ("object", "list") if named else ("value/list", "object")
            raise _invalid(f"Expecting {expected} but got {got} at item {position} of input list")
        values = row if named else {only_name: row}
        where = f"Failed to process element: {position}"
        if set(values) != set(infos):
            raise _invalid(
                f"{where} of 'instances' list. JSON object: {_shown(row)} keys must be equal to: "
                + ",".join(sorted(infos))
            )
        for name, value in values.items():
            try:
                array = _array(value, tf.as_dtype(infos[name].dtype))
                _check_same_shape(array, arrays[name][:1])
            except tf.errors.InvalidArgumentError as error:
                key = f" key: {name}" if named else ""
                raise _invalid(
                    f"{where}{key} of 'instances' list. Error: INVALID_ARGUMENT: {error.message}"
                ) from error
            arrays[name].append(array)
    return {name: _proto(np.stack(arrays[name]), infos[name].dtype) for name in infos}


def _check_same_shape(array: np.ndarray, others: list[np.ndarray]) -> None:
    for other in others:
        if array.size != other.size:
            raise _invalid(f"Expecting tensor size: {other.size} but got: {array.size}")
        if array.shape != other.shape:
            shapes = [f"[{','.join(map(str, one.shape))}]" for one in (other, array)]
            raise _invalid(f"Expecting shape {shapes[0]} but got: {shapes[1]}")


def _proto(array: np.ndarray, dtype: int) -> tensor_pb2.TensorProto:
    return tf.make_tensor_proto(array, dtype=dtype, shape=array.shape)


def _array(value: Any, dtype: tf.DType) -> np.ndarray:
    """Converts nested lists. The first element of each says what the others must look like."""
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    flat: list[Any] = []
    _flatten(value, 0, shape, dtype, flat)
    return np.array(flat, dtype=dtype.as_numpy_dtype).reshape(shape)


def _flatten(value: Any, level: int, shape: list[int], dtype: tf.DType, flat: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise _invalid(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        flat.append(_scalar(value, dtype))
        return
    if level >= len(shape):
        raise _invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise _invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for element in value:
        _flatten(element, level + 1, shape, dtype, flat)


def _scalar(value: Any, dtype: tf.DType) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype == tf.string and isinstance(value, dict):
        return _decode_base64(value)
    if dtype == tf.string and isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise _invalid("JSON Parse error: The surrogate pair in string is invalid.") from error
    if dtype == tf.bool and isinstance(value, bool):
        return value
    if dtype.is_integer and is_number and isinstance(value, int):
        if dtype.min <= value <= dtype.max:
            return value
    elif dtype.is_floating and is_number:
        # Whole numbers up to here are all exact; beyond, some are not.
        exact = 2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1) - 1
        if not math.isfinite(value) or abs(value) <= (
            exact if isinstance(value, int) else dtype.max
        ):
            return value
        raise _invalid(
            f"Cannot convert JSON value: {_shown(value)} to {_type_name(dtype)} without loss of "
            "precision."
        )
    raise _invalid(
        f"JSON Value: {_shown(value)} Type: {_json_type(value)} is not of expected type: "
        f"{_type_name(dtype)}"
    )


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str)


def _decode_base64(value: dict[str, Any]) -> bytes:
    if not _is_base64(value):
        raise _invalid(f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except ValueError as error:
        raise _invalid("Unable to base64 decode") from error


def _type_name(dtype: tf.DType) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)


def _json_type(value: Any) -> str:
    names = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}
    return "Null" if value is None else names.get(type(value), str(value))  # True, False


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"


def _rows(outputs: dict[str, np.ndarray]) -> list[Any]:
    num_rows = None
    for name, array in sorted(outputs.items()):
        if array.ndim == 0:
            raise _invalid(f"Tensor name: {name} has no shape information ")
        if num_rows not in (None, len(array)):
            raise _invalid(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {num_rows}"
            )
        num_rows = len(array)
    columns = {name: _jsonable(name, array) for name, array in sorted(outputs.items())}
    if len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _columns(outputs: dict[str, np.ndarray]) -> Any:
    columns = {name: _jsonable(name, array) for name, array in sorted(outputs.items())}
    return next(iter(columns.values())) if len(columns) == 1 else columns


def _jsonable(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        # TF Serving's rule: the name of an output says whether it is text or bytes.
        encode = _encode_base64 if name.endswith("_bytes") else _decode
        return np.frompyfunc(encode, 1, 1)(array).tolist()
    if np.issubdtype(array.dtype, np.floating):
        # By way of text, so that 0.1 is written as 0.1 and not as the double nearest to it.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()


def _encode_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode("ascii")}


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _invalid(message: str) -> tf.errors.InvalidArgumentError:
    return tf.errors.InvalidArgumentError(None, None, message)
