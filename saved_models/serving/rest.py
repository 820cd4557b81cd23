"""The arrow from `saved_models` to a model server, in JSON: TF Serving's REST interface.

    GET  /v1/models/{model}[/versions/{version}]            → the states of its versions
    GET  /v1/models/{model}[/versions/{version}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{version}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": whole tensors}     → {"outputs": whole tensors}

An error is {"error": "…"}.
"""

import contextlib
import json
import re
import socket
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from http import HTTPStatus, server
from typing import Any

import tensorflow as tf
from absl import logging
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.serving import rest_json
from elmo_tf.saved_models.serving.sessions import MAX_REQUEST_BYTES, invalid
from elmo_tf.saved_models.serving.versions import ModelVersions


class RestServer:
    """Listens from the start; answers from `start()` to `stop()`.

    Args:
        versions: who answers.
        host: address to listen on.
        port: 0 picks a free one.

    Attributes:
        port: the port that it listens on.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(self, versions: ModelVersions, host: str, port: int):
        self._server = _HTTPServer(versions, host, port)
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

    def __init__(self, versions: ModelVersions, host: str, port: int):
        self.versions = versions
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


# By the numbers of `tf.errors`, which are gRPC's. Others are 500.
_HTTP_STATUS = {
    tf.errors.CANCELLED: 499,
    tf.errors.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    tf.errors.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    tf.errors.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
    tf.errors.NOT_FOUND: HTTPStatus.NOT_FOUND,
    tf.errors.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    tf.errors.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
    tf.errors.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
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
        with self.server.running():
            try:
                body = self.rfile.read(self._content_length())
                path = urllib.parse.urlsplit(self.path).path
                content = _answer(self.server.versions, self.command, path, body)
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
            raise invalid("The request must state its length: Content-Length is missing.")
        if int(length) > MAX_REQUEST_BYTES:
            raise invalid(f"The request has {length} bytes, more than {MAX_REQUEST_BYTES}.")
        return int(length)

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
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


_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d{1,18}))?"
_PATHS = {
    "GET": re.compile(_MODEL + "(/metadata)?", re.IGNORECASE),
    "POST": re.compile(_MODEL + "(:predict)", re.IGNORECASE),
}


def _answer(versions: ModelVersions, method: str, path: str, body: bytes) -> dict[str, Any]:
    found = _PATHS[method].fullmatch(path)
    if found is None:
        raise invalid(
            f"Malformed request: {method} {path}. This server knows GET /v1/models/NAME, "
            f"GET /v1/models/NAME/metadata and POST /v1/models/NAME:predict, with "
            f"/versions/NUMBER after NAME for another version than the newest."
        )
    name, version, action = found.groups()
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name))
    if version is not None:
        spec.version.value = int(version)
    if method == "POST":
        return _predict(versions, spec, body)
    return _metadata(versions, spec) if action else _status(versions, spec)


def _predict(versions: ModelVersions, spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
    document = rest_json.parse(body)
    spec.signature_name = document.get("signature_name", "")
    request = predict_pb2.PredictRequest(model_spec=spec)
    infos = versions.signature_inputs(request)
    for name, tensor in rest_json.input_tensors(document, infos).items():
        request.inputs[name].CopyFrom(tensor)
    response = versions.predict(request)
    outputs = {name: tf.make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}
    if "instances" in document:
        return {"predictions": rest_json.rows(outputs)}
    return {"outputs": rest_json.columns(outputs)}


def _status(versions: ModelVersions, spec: model_pb2.ModelSpec) -> dict[str, Any]:
    return _as_dict(versions.status(get_model_status_pb2.GetModelStatusRequest(model_spec=spec)))


def _metadata(versions: ModelVersions, spec: model_pb2.ModelSpec) -> dict[str, Any]:
    response = versions.metadata(
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
