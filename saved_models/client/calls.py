"""Requests to a server: their errors, their deadline, and several of them at once."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import grpc

T = TypeVar("T")


class ServerError(grpc.RpcError):
    """The server was not reached, has refused the request, failed at it, or was too slow."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Returns gRPC's status code, such as `grpc.StatusCode.NOT_FOUND` for a wrong model."""
        return self._code

    def details(self) -> str:
        """Returns what was wrong, as the server says it."""
        return self._details


class Deadline:
    """The end of a call with all its requests and retries.

    Args:
        timeout: seconds from now; `None` means no end.
    """

    def __init__(self, timeout: float | None):
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Returns the seconds that are left, at least 0; `None` means no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def explained(
    code: grpc.StatusCode, details: str, address: str, port_of: str, deadline: Deadline
) -> ServerError:
    """An error of a server, with the likely remedy where the server itself cannot say it.

    Args:
        code, details: what came.
        address: of the server, as the caller gave it.
        port_of: "gRPC" or "REST".
        deadline: of the call.
    """
    if code == grpc.StatusCode.UNAVAILABLE and _is_of_connection(details):
        details = (
            f"Cannot reach a model server at {address}: {details}. Is it running, "
            f"and is this the port of its {port_of}?"
        )
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED:
        details = (
            f"{address} did not answer within {deadline.timeout} s. Send fewer sentences "
            f"at once, or allow a longer timeout."
        )
    return ServerError(code, details)


def _is_of_connection(details: str) -> bool:
    """Whether the connection failed, rather than the server being unable to answer now."""
    return any(word in details.lower() for word in ("connect", "http", "socket", "name resol"))


class Call(Protocol[T]):
    """A request that has been sent."""

    def done(self) -> bool:
        """Whether there is an answer, or an error."""

    def result(self) -> T:
        """Waits for the answer. Raises ServerError if there is none."""

    def cancel(self) -> None:
        """Gives up the request."""


class Calls(Generic[T]):
    """The requests of one prediction: sent in order, several at once, and cancelled together."""

    def __init__(self):
        self._pending: deque[tuple[Call, T]] = deque()
        self._is_cancelled = False
        self._lock = threading.Lock()  # of the above

    def in_order(
        self, batches: Iterable[T], start: Callable[[T], Call], in_flight: int
    ) -> Iterator[tuple[Call, T]]:
        """Starts a call for each batch, and yields the calls in their order, with the batches.

        Args:
            batches: may be endless: a batch is taken when its call is started.
            start: starts a call.
            in_flight: int >= 1. The most calls at a time. Calls that are not finished when the
                iterator is closed are cancelled.
        """
        pending = self._pending
        try:
            for batch in batches:
                with self._lock:
                    if self._is_cancelled:
                        return
                    pending.append((start(batch), batch))
                while pending and (len(pending) >= in_flight or pending[0][0].done()):
                    yield pending[0]
                    pending.popleft()
            while pending:
                yield pending[0]
                pending.popleft()
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Cancels the calls that are not finished; no more are started. Any thread may call it."""
        with self._lock:
            self._is_cancelled = True
            for call, _ in list(self._pending):
                call.cancel()
