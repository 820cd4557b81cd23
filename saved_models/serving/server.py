"""The arrow from `saved_models` to a model server: the embedded one.

It answers by TF Serving's protocols (gRPC here, REST in `rest.py`), with its status codes.
"""

import functools
import os
import socket
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import tensorflow as tf
from absl import logging
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.serving.rest import RestServer
from elmo_tf.saved_models.serving.sessions import MAX_REQUEST_BYTES
from elmo_tf.saved_models.serving.versions import ModelVersions


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
        A `Server` that is ready to answer. Keep it: gRPC stops when nothing refers to it.

    Raises:
        FileNotFoundError: `directory` does not exist or holds no version.
        OSError: a port cannot be listened on, or the newest version cannot be read.
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
    rest_note = "" if rest is None else f", REST on {host}:{rest.port}"
    logging.info("Serving %s from %s: gRPC on %s:%d%s.", name, directory, host, port, rest_note)
    return Server(versions, grpc_server, port, rest)


class Server:
    """A running server, as `serve` returns it. As a context manager it stops at the end.

    Attributes:
        port: of gRPC.
        rest_port: of REST, or `None`.
    """

    def __init__(
        self,
        versions: ModelVersions,
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
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise _port_error(host, port, error.strerror) from error


def _port_error(host: str, port: int, reason: str) -> OSError:
    return OSError(
        f"Cannot listen on {host}, port {port}: {reason}. Choose another port; 0 picks a free one."
    )
