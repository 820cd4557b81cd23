"""Requests of HTTP ─► the bodies of their answers, by several attempts and within a deadline."""

import contextlib
import json
import threading

import grpc
import urllib3

from elmo_tf.saved_models.client.calls import Deadline, ServerError
from elmo_tf.saved_models.client.options import TransportOptions

# gRPC's status for TF Serving's of HTTP, and for what proxies say.
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
_REPEATED = (502, 503)
_CONNECTIONS = 32  # kept open
_PIECE = 1024 * 1024  # bytes read at once


class HttpRequests:
    """Sends requests over a pool of connections, which threads may share.

    Args:
        options: retries, TLS, headers.
    """

    def __init__(self, options: TransportOptions):
        self._headers = {**options.headers, "Content-Type": "application/json"}
        self._retries = urllib3.Retry(
            total=options.retries,
            status_forcelist=_REPEATED,
            allowed_methods=None,  # A prediction changes nothing: it may be asked for again.
            backoff_factor=0.1,
            backoff_max=5,
            backoff_jitter=0.1,
        )
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            ca_certs=options.tls.root_file,
            key_file=options.tls.key_file,
            cert_file=options.tls.chain_file,
        )

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._pool.clear()

    def send(
        self, method: str, url: str, body: bytes, deadline: Deadline, given_up: threading.Event
    ) -> bytes:
        """Returns the body of an answer, by several attempts if need be.

        Args:
            method, url, body: of the request.
            deadline: of all attempts together.
            given_up: set when nobody waits any more: then there are no further attempts.

        Raises:
            ServerError: there was no answer, or a refusal.
        """
        retries = self._retries
        while True:
            response = failure = None
            try:
                response, content = self._attempt(method, url, body, deadline)
                if response.status == 200:
                    return content
                error = _refusal(response, content)
                if response.status not in _REPEATED:
                    raise error
            except urllib3.exceptions.HTTPError as caught:
                failure, error = caught, _failure(caught)
                if error.code() != grpc.StatusCode.UNAVAILABLE or _is_of_tls(caught):
                    raise error from caught
            try:
                retries = retries.increment(method, url, response=response, error=failure)
            except urllib3.exceptions.HTTPError:
                raise error from failure
            pause, left = _pause(retries, response), deadline.left()
            if (left is not None and pause >= left) or given_up.wait(pause):
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
        pieces = []
        try:
            # The time limit of a connection is for each piece: that of the whole is kept here.
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                if deadline.left() == 0:
                    raise urllib3.exceptions.TimeoutError
            response.release_conn()
        except BaseException:
            response.close()
            raise
        return response, b"".join(pieces)


def _refusal(response: urllib3.BaseHTTPResponse, content: bytes) -> ServerError:
    text = content.decode("utf-8", "surrogateescape")
    try:
        details = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        # Not a model server, but something before it.
        details = f"HTTP {response.status} {response.reason}: {' '.join(text.split()):.200}"
    return ServerError(_STATUS_CODES.get(response.status, grpc.StatusCode.UNKNOWN), str(details))


def _failure(error: urllib3.exceptions.HTTPError) -> ServerError:
    # A connection that is refused is among urllib3's timeouts.
    is_late = isinstance(error, urllib3.exceptions.TimeoutError)
    if is_late and not isinstance(error, urllib3.exceptions.NewConnectionError):
        return ServerError(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    return ServerError(grpc.StatusCode.UNAVAILABLE, str(error.__cause__ or error))


def _is_of_tls(error: urllib3.exceptions.HTTPError) -> bool:
    """Whether a certificate does not please, which will not be otherwise in a second."""
    return isinstance(error, urllib3.exceptions.SSLError)


def _pause(retries: urllib3.Retry, response: urllib3.BaseHTTPResponse | None) -> float:
    """Returns the seconds before the next attempt; a server may have said how many."""
    told = None
    if response is not None:
        with contextlib.suppress(urllib3.exceptions.InvalidHeader):
            told = retries.get_retry_after(response)
    return told or retries.get_backoff_time()
