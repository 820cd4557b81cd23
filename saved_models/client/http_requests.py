"""HTTP requests with retries and a deadline."""

import json
import threading

import grpc
import urllib3

from elmo_tf.saved_models.client.calls import Deadline, ServerError
from elmo_tf.saved_models.client.options import TransportOptions

# gRPC's equivalents of the HTTP status codes of TF Serving and of proxies.
_STATUS_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ABORTED,
    412: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_RETRIED = (502, 503)
_CONNECTIONS = 32  # kept alive
_CHUNK = 1024 * 1024  # bytes per read


class HttpRequests:
    """Sends requests over a connection pool. Thread-safe."""

    def __init__(self, options: TransportOptions):
        self._headers = {**options.headers, "Content-Type": "application/json"}
        self._retries = urllib3.Retry(
            total=options.retries,
            status_forcelist=_RETRIED,
            allowed_methods=None,  # POST too: predictions have no side effects
            backoff_factor=0.1,
            backoff_max=5,
            backoff_jitter=0.1,
        )
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            ca_certs=options.root_certificates,
            key_file=options.client_key,
            cert_file=options.client_certificate,
        )

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()

    def send(
        self, method: str, url: str, body: bytes, deadline: Deadline, cancelled: threading.Event
    ) -> bytes:
        """Returns the body of a response; retries until the deadline, or until `cancelled` is set.

        Raises:
            ServerError: there is no response, or it is an error.
        """
        retries = self._retries
        while True:
            response = failure = None
            try:
                response, content = self._attempt(method, url, body, deadline)
                if response.status == 200:
                    return content
                error = _error_of_response(response, content)
                if response.status not in _RETRIED:
                    raise error
            except urllib3.exceptions.HTTPError as caught:
                failure, error = caught, _error_of_failure(caught)
                is_tls = isinstance(caught, urllib3.exceptions.SSLError)  # will fail again
                if error.code() != grpc.StatusCode.UNAVAILABLE or is_tls:
                    raise error from caught
            try:
                retries = retries.increment(method, url, response=response, error=failure)
                pause = _pause(retries, response)
            except urllib3.exceptions.HTTPError:  # no more retries, or a malformed Retry-After
                raise error from failure
            left = deadline.left()
            if (left is not None and pause >= left) or cancelled.wait(pause):
                raise error from failure

    def _attempt(
        self, method: str, url: str, body: bytes, deadline: Deadline
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        left = deadline.left()
        if left == 0:
            raise urllib3.exceptions.TimeoutError
        response = self._pool.request(
            method,
            url,
            body=body or None,
            headers=self._headers,
            timeout=urllib3.Timeout(total=left),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        chunks = []
        try:
            # urllib3's timeout applies to each chunk: the total is checked here.
            while chunk := response.read1(_CHUNK):
                chunks.append(chunk)
                if deadline.left() == 0:
                    raise urllib3.exceptions.TimeoutError
            response.release_conn()
        except BaseException:
            response.close()
            raise
        return response, b"".join(chunks)


def _error_of_response(response: urllib3.BaseHTTPResponse, content: bytes) -> ServerError:
    text = content.decode("utf-8", "surrogateescape")
    try:
        details = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        # Not from a model server, but perhaps from a proxy.
        details = f"HTTP {response.status} {response.reason}: {' '.join(text.split()):.200}"
    return ServerError(_STATUS_CODES.get(response.status, grpc.StatusCode.UNKNOWN), str(details))


def _error_of_failure(error: urllib3.exceptions.HTTPError) -> ServerError:
    # In urllib3, the error of a refused connection is also a `TimeoutError`.
    is_timeout = isinstance(error, urllib3.exceptions.TimeoutError)
    if is_timeout and not isinstance(error, urllib3.exceptions.NewConnectionError):
        return ServerError(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    return ServerError(grpc.StatusCode.UNAVAILABLE, str(error.__cause__ or error))


def _pause(retries: urllib3.Retry, response: urllib3.BaseHTTPResponse | None) -> float:
    """Returns the seconds before the next attempt: from `Retry-After`, or exponential."""
    asked_for = None if response is None else retries.get_retry_after(response)
    return asked_for or retries.get_backoff_time()
