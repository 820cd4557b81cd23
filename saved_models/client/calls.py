"""Calls to a server: errors, deadlines, and several calls in flight."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc

T = TypeVar("T")


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


class Deadline:
    """The deadline of a call and its retries, `timeout` seconds from now; `None` means never."""

    def __init__(self, timeout: float | None):
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Returns the remaining seconds, more than 0; `None` means no deadline."""
        return None if self._end is None else max(1e-6, self._end - time.monotonic())


def explained(error: grpc.RpcError, address: str, port_of: str, deadline: Deadline) -> ServerError:
    """Returns an error whose message names the likely remedy; `port_of` is "gRPC" or "REST"."""
    code, details = error.code(), error.details()
    if code == grpc.StatusCode.UNAVAILABLE and _is_of_connection(details):
        details = (
            f"Cannot reach a model server at {address}: {details}. Is it running, "
            f"and is this its {port_of} port?"
        )
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED and deadline.timeout is not None:
        details = (
            f"{address} did not answer within {deadline.timeout} s. Send fewer sentences "
            "per call, or increase the timeout."
        )
    return ServerError(code, details)


def _is_of_connection(details: str) -> bool:
    """Whether the connection failed, as opposed to an overloaded server."""
    return any(word in details.lower() for word in ("connect", "http", "socket", "name resol"))


class Calls:
    """The calls of one prediction: started in order, several in flight, cancelled together.

    A call has the methods `done()`, `cancel()` and `result()`, which raises `ServerError`.
    """

    def __init__(self):
        self._pending: deque[tuple[Any, T]] = deque()
        self._is_cancelled = False
        self._lock = threading.Lock()  # guards the above

    def responses(
        self, batches: Iterable[T], start: Callable[[T], Any], in_flight: int
    ) -> Iterator[tuple[Any, T]]:
        """Starts a call for each batch and yields the responses in order, with their batches.

        At most `in_flight` calls are in flight. A batch is consumed when its call is started:
        `batches` may be infinite. Closing the iterator cancels the unfinished calls.
        """
        try:
            for batch in batches:
                with self._lock:
                    if self._is_cancelled:
                        return
                    self._pending.append((start(batch), batch))
                yield from self._results(in_flight)
            yield from self._results(0)
        finally:
            self.cancel()

    def _results(self, in_flight: int) -> Iterator[tuple[Any, T]]:
        """Yields results until the next is unfinished and less than `in_flight` are pending."""
        while self._pending:
            call, batch = self._pending[0]
            if len(self._pending) < in_flight and not call.done():
                return
            yield call.result(), batch
            self._pending.popleft()

    def cancel(self) -> None:
        """Cancels the unfinished calls and starts no more. Thread-safe."""
        with self._lock:
            self._is_cancelled = True
            for call, _ in list(self._pending):
                call.cancel()
