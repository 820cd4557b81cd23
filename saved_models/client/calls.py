"""Calls to a server over gRPC: channels, errors, and several calls in flight."""

import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import grpc

T = TypeVar("T")
MAX_RETRIES = 4  # gRPC makes at most five attempts
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect soon after a server restart, before the retries are used up.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.per_rpc_retry_buffer_size", 256 * 1024 * 1024),  # larger requests are not retried
)
_RETRY_POLICY = {
    "initialBackoff": "0.2s",
    "maxBackoff": "5s",
    "backoffMultiplier": 2,  # gRPC adds jitter
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_ADDRESS = re.compile(r"(?:(grpcs?|https?)://)?(.*)", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT = re.compile(r"(?:[^\s/:\[\]]+|\[[0-9A-Fa-f:.%]+\]):\d{1,5}")
# gRPC's own target syntax, which gRPC checks itself.
_GRPC_TARGETS = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")


class ServerError(grpc.RpcError):
    """The server is unreachable, has rejected the request, failed, or exceeded the timeout."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Returns the status code, such as `grpc.StatusCode.NOT_FOUND` for an unknown model."""
        return self._code

    def details(self) -> str:
        """Returns the error message of the server."""
        return self._details


def explained(error: grpc.RpcError, address: str, timeout: float | None) -> ServerError:
    """Returns an error whose message names the likely remedy."""
    code, details = error.code(), error.details()
    of_connection = ("connect", "http", "socket", "name resol")  # not of an overloaded server
    if code == grpc.StatusCode.UNAVAILABLE and any(w in details.lower() for w in of_connection):
        details = (
            f"Cannot reach a model server at {address}: {details}. Is it running, and is this its "
            "gRPC port?"
        )
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED and timeout is not None:
        details = (
            f"{address} did not answer within {timeout} s. Send fewer sentences per call, or "
            "increase the timeout."
        )
    elif details.startswith("Servable not found"):
        details += ". Pass the name under which the model is served: model=, --model"
    elif details.startswith("output tensor alias not found"):
        details += " Choose them by outputs=, --output"
    return ServerError(code, details)


def open_channel(
    address: str, retries: int, pem_files: Sequence[str | os.PathLike | None]
) -> grpc.Channel:
    """Returns a channel to a server.

    `pem_files` are the root certificates, the client key and the client certificate, each or
    `None`. For errors, see `Client`.
    """
    if not 0 <= retries <= MAX_RETRIES:
        raise ValueError(f"`retries` must be 0 … {MAX_RETRIES}, but is {retries}.")
    roots, key, certificate = pem_files
    if (key is None) != (certificate is None):
        raise ValueError(
            "`client_key` and `client_certificate` go together, but only one was given."
        )
    scheme, target = _ADDRESS.fullmatch(address).groups()
    scheme = (scheme or "").lower()
    if scheme.startswith("http"):
        raise ValueError(
            "The client uses gRPC: the address must be host:port of the server's gRPC (usually "
            f"port 8500), but is {address!r}. Over REST, post JSON to …/v1/models/NAME:predict, "
            "see docs/guides/client.md."
        )
    if not _HOST_AND_PORT.fullmatch(target) and (scheme or not target.startswith(_GRPC_TARGETS)):
        raise ValueError(
            "The address must be host:port of the server's gRPC, such as localhost:8500, or "
            f"begin with grpc:// or grpcs://, but is {address!r}."
        )
    options = [*_OPTIONS, ("grpc.enable_retries", int(retries > 0))]
    if retries:
        policy = {**_RETRY_POLICY, "maxAttempts": 1 + retries}
        config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
        options.append(("grpc.service_config", json.dumps(config)))
    if scheme == "grpcs":
        contents = [None if path is None else Path(path).read_bytes() for path in pem_files]
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(*contents), options)
    if roots is not None or key is not None:
        raise ValueError(
            f"Certificates need an address with TLS, grpcs://, but the address is {address!r}."
        )
    return grpc.insecure_channel(target, options)


class Calls:
    """The calls of one prediction: started in order, several in flight, cancelled together."""

    def __init__(self):
        self._pending: deque[tuple[grpc.Future, T]] = deque()
        self._is_cancelled = False
        self._lock = threading.Lock()  # guards the above

    def in_order(
        self, batches: Iterable[T], start: Callable[[T], grpc.Future], in_flight: int
    ) -> Iterator[tuple[grpc.Future, T]]:
        """Starts a call for each batch and yields the calls in order, with their batches.

        At most `in_flight` calls are in flight. A batch is consumed when its call is started:
        `batches` may be infinite. The caller waits for each call.
        """
        for batch in batches:
            with self._lock:
                if self._is_cancelled:
                    return
                self._pending.append((start(batch), batch))
            yield from self._ready(in_flight)
        yield from self._ready(0)

    def _ready(self, in_flight: int) -> Iterator[tuple[grpc.Future, T]]:
        """Yields calls until the next is unfinished and less than `in_flight` are pending."""
        while self._pending:
            if len(self._pending) < in_flight and not self._pending[0][0].done():
                return
            yield self._pending[0]
            self._pending.popleft()

    def cancel(self) -> None:
        """Cancels the unfinished calls and starts no more. Thread-safe."""
        with self._lock:
            self._is_cancelled = True
            for call, _ in list(self._pending):
                call.cancel()
