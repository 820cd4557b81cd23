"""The HTTP endpoint of the server: REST, the web page, and the metrics.

Errors are {"error": "…"} with the HTTP status that TF Serving uses.
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
from elmo_tf.saved_models.server.errors import invalid, printable, shortened
from elmo_tf.saved_models.server.metrics import Metrics

_MAX_CONNECTIONS = 1024  # one thread per connection

# By TensorFlow's error codes, which equal gRPC's. All others are 500.
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


class RestEndpoint(socketserver.ThreadingTCPServer):
    """Listens from construction on; answers from `start()` to `stop()`.

    Args:
        port: 0 picks a free one, see the attribute `port`.
        metrics_path: path of the Prometheus metrics, or `None`.
        access_log: whether to log a line per request.

    Raises:
        OSError: the port is not available.
    """

    allow_reuse_address = os.name != "nt"  # on Windows two servers could share a port
    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self,
        catalogue: Catalogue,
        metrics: Metrics,
        host: str,
        port: int,
        metrics_path: str | None,
        access_log: bool = False,
    ):
        self.catalogue = catalogue
        self.metrics = metrics
        self.metrics_path = metrics_path
        self.access_log = access_log
        self.stopping = False
        self._connections: dict[socket.socket, bool] = {}  # value: whether a request is running
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.port = self.server_address[1]
        self._acceptor = threading.Thread(
            target=self.serve_forever, args=(0.05,), name="rest", daemon=True
        )

    def start(self) -> None:
        """Starts to answer, in background threads."""
        self._acceptor.start()

    def stop(self, grace: float) -> None:
        """Rejects new requests and waits up to `grace` seconds for the running ones."""
        if self._acceptor.is_alive():
            self.shutdown()
            self._acceptor.join()
            while _is_readable(self.socket):  # connections made before the call
                self.handle_request()
        self.server_close()
        with self._changed:
            self.stopping = True
            for connection, is_running in self._connections.items():
                if not is_running:
                    _stop_reading(connection)
            self._changed.wait_for(lambda: not self._connections, grace)

    def set_running(self, connection: socket.socket, is_running: bool) -> None:
        """Records whether a request is running on a connection."""
        with self._changed:
            self._connections[connection] = is_running
            if self.stopping and not is_running:
                _stop_reading(connection)

    def verify_request(self, request: socket.socket, client_address: Any) -> bool:
        """Counts a new connection, or rejects it if there are too many."""
        with self._changed:
            has_room = len(self._connections) < _MAX_CONNECTIONS
            if has_room:
                self._connections[request] = False
        return has_room

    def shutdown_request(self, request: socket.socket) -> None:
        """Closes a connection."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.pop(request, None)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs a broken connection instead of printing a traceback."""
        logging.vlog(1, "The connection to %s broke.", client_address, exc_info=True)


def _is_readable(connection: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _stop_reading(connection: socket.socket) -> None:
    """Closes the receiving side. Requests that have already arrived are still answered."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)


class _Handler(server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # a malformed first line gets an HTTP response, too
    timeout = 60  # seconds without data until the connection is closed
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Waits for a request and answers it."""
        try:
            has_data = bool(self.rfile.peek(1))
        except OSError:
            has_data = False
        if not has_data:
            self.close_connection = True
            return
        self.server.set_running(self.connection, True)
        self._start_time = time.monotonic()
        self.path = "-"  # until the request line is parsed
        super().handle_one_request()
        self.server.set_running(self.connection, False)

    def do_GET(self) -> None:
        path = _path_of(self.path)
        file = page.find(path, self.server.catalogue.names)
        if file is not None:
            self._send_file(file.content, file.headers)
        elif path == self.server.metrics_path:
            headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
            self._send_file(self.server.metrics.as_text(), headers)
        else:
            self._call_api("GET")

    def do_HEAD(self) -> None:
        self.do_GET()  # `_send` leaves out the body

    def do_POST(self) -> None:
        self._call_api("POST")

    def _send_file(self, content: bytes, headers: dict[str, str]) -> None:
        # The body of the request is not read, see `_body`.
        names = ("Content-Length", "Transfer-Encoding")
        self.close_connection |= any(self.headers.get(name, "0") != "0" for name in names)
        self._send(HTTPStatus.OK, content, headers)

    def _call_api(self, method: str) -> None:
        try:
            content = rest_api.answer(
                self.server.catalogue,
                self.server.metrics,
                method,
                _path_of(self.path),
                self._body(),
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
        self._send_json(status, content)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        limit = self.server.catalogue.limits.max_request_bytes
        # If the body is not read, the connection closes: it would be parsed as the next request.
        closes, self.close_connection = self.close_connection, True
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            raise invalid("The request must state its length: Content-Length is missing.")
        if len(length) > 18 or int(length) > limit:
            raise invalid(f"The request has {length:.18} bytes, more than {limit}.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("The client disconnected before its request was complete.")
        self.close_connection = closes
        return body

    def _send_json(self, status: int, content: dict[str, Any]) -> None:
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
        """Sends the errors of the base class as JSON, too."""
        self.close_connection = True
        self._send_json(code, {"error": message or HTTPStatus(code).phrase})

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.server.access_log:
            logging.info(
                "%s REST %s %s %d %.1f ms",
                self.client_address[0],
                self.command or "-",
                printable(self.path),
                code,
                1000 * (time.monotonic() - self._start_time),
            )

    def log_message(self, format: str, *args: Any) -> None:
        logging.vlog(1, format, *args)


def _path_of(target: str) -> str:
    """Returns the path of a URL, or `target` itself if it cannot be parsed."""
    try:
        return urllib.parse.urlsplit(target).path
    except ValueError:
        return target
