"""The arrow from `saved_models` to a model server, by HTTP: REST, the page, and the metrics.

An error is {"error": "…"}, with TF Serving's status.
"""

import contextlib
import json
import os
import selectors
import socket
import socketserver
import threading
import time
import urllib.parse
from http import HTTPStatus, server
from typing import Any

import prometheus_client
import tensorflow as tf
from absl import logging

from elmo_tf.saved_models.server import page, rest_api
from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.errors import invalid, shortened
from elmo_tf.saved_models.server.metrics import Metrics


class RestEndpoint:
    """Listens from the start; answers from `start()` to `stop()`.

    Args:
        catalogue: who answers.
        metrics: are told of each request.
        host: address to listen on.
        port: 0 picks a free one.
        metrics_path: where Prometheus finds the metrics; `None` means nowhere.
        access_log: whether to log a line for each request.

    Attributes:
        port: the port that it listens on.

    Raises:
        OSError: the port cannot be listened on.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        metrics: Metrics,
        host: str,
        port: int,
        metrics_path: str | None,
        access_log: bool = False,
    ):
        self._server = _HTTPServer(catalogue, metrics, host, port, metrics_path)
        self._server.access_log = access_log
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
            self._server.take_those_who_wait()
        self._server.server_close()
        self._server.wait_until_idle(grace)


class _HTTPServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = os.name != "nt"  # where it would let two servers share a port
    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self, catalogue: Catalogue, metrics: Metrics, host: str, port: int, metrics_path: str | None
    ):
        self.catalogue = catalogue
        self.metrics = metrics
        self.metrics_path = metrics_path
        self.access_log = False
        self.stopping = False
        self._connections: dict[socket.socket, bool] = {}  # whether a request is running
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def verify_request(self, request: socket.socket, client_address: Any) -> bool:
        """Whether there is room for one more connection; it is counted at once."""
        with self._changed:
            has_room = len(self._connections) < _MOST_CONNECTIONS
            if has_room:
                self._connections[request] = False
        return has_room

    def shutdown_request(self, request: socket.socket) -> None:
        """Closes a connection."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.pop(request, None)
            self._changed.notify_all()

    def mark(self, connection: socket.socket, is_running: bool) -> None:
        """Notes whether a request is running on a connection."""
        with self._changed:
            self._connections[connection] = is_running
            if self.stopping and not is_running:
                _end_reading(connection)

    def take_those_who_wait(self) -> None:
        """Accepts the connections that were made before the server was told to stop."""
        while _is_readable(self.socket):
            self.handle_request()

    def wait_until_idle(self, timeout: float) -> None:
        """Ends the connections on which nothing is asked, waits for the others."""
        with self._changed:
            self.stopping = True
            for connection, is_running in self._connections.items():
                if not is_running:
                    _end_reading(connection)
            self._changed.wait_for(lambda: not self._connections, timeout)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logging.vlog(1, "The connection to %s broke.", client_address, exc_info=True)


def _is_readable(connection: socket.socket) -> bool:
    """Whether something has come on it, be it the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _end_reading(connection: socket.socket) -> None:
    """What has arrived is still read, and answered."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)


_MOST_CONNECTIONS = 1024  # each has a thread

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
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # of what is no HTTP: its refusal shall be
    timeout = 60  # seconds without a byte, then the connection is closed
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Waits for a request, then answers it."""
        try:
            has_come = bool(self.rfile.peek(1))
        except OSError:
            has_come = False
        if not has_come:
            self.close_connection = True
            return
        self.server.mark(self.connection, is_running=True)
        self._begun = time.monotonic()
        super().handle_one_request()
        self.server.mark(self.connection, is_running=False)

    def do_GET(self) -> None:
        path = _path_of(self.path)
        file = page.find(path, self.server.catalogue.names)
        if file is not None:
            self._send(HTTPStatus.OK, file.content, file.headers)
        elif path == self.server.metrics_path:
            headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
            self._send(HTTPStatus.OK, self.server.metrics.as_text(), headers)
        else:
            self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        try:
            body = self._body()
            content = rest_api.answer(
                self.server.catalogue,
                self.server.metrics,
                self.command,
                _path_of(self.path),
                body,
            )
            status = HTTPStatus.OK
        except tf.errors.OpError as error:
            content = {"error": shortened(error.message)}
            status = _HTTP_STATUS.get(error.error_code, HTTPStatus.INTERNAL_SERVER_ERROR)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            logging.exception("A request failed.")
            content = {"error": shortened(f"{type(error).__name__}: {error}")}
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        self._reply(status, content)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        most = self.server.catalogue.limits.max_request_bytes
        # A body that is not read would be taken for the next request.
        is_last, self.close_connection = self.close_connection, True
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            raise invalid("The request must state its length: Content-Length is missing.")
        if len(length) > 18 or int(length) > most:
            raise invalid(f"The request has {length:.18} bytes, more than {most}.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("The client has gone before its request was complete.")
        self.close_connection = is_last
        return body

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
        self._send(status, body, {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.close_connection |= self.server.stopping
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses by itself is refused in JSON too."""
        self.close_connection = True
        self._reply(code, {"error": message or HTTPStatus(code).phrase})

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.server.access_log:
            logging.info(
                "%s REST %s %s %d %.1f ms",
                self.client_address[0],
                self.command or "-",
                shortened(getattr(self, "path", "-")),
                code,
                1000 * (time.monotonic() - self._begun),
            )

    def log_message(self, format: str, *args: Any) -> None:
        logging.vlog(1, format, *args)


def _path_of(target: str) -> str:
    """The path in a request's first line, or what stands there if that is no address."""
    try:
        return urllib.parse.urlsplit(target).path
    except ValueError:
        return target
