"""Calls under way: how they fail, how long they may take, how one waits for them.

What a client does is written once, as a generator that yields each call it must wait for and
returns its result. `run` waits in the thread, `run_async` in an event loop.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Protocol, TypeVar

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
    """Whether nobody was reached, rather than a server that cannot answer now."""
    return any(word in details.lower() for word in ("connect", "http", "socket", "name resol"))


class Call(Protocol[T]):
    """A request that has been sent."""

    def done(self) -> bool:
        """Whether there is an answer, or an error."""

    def wait(self) -> None:
        """Blocks until it is done."""

    def notify(self, function: Callable[[], None]) -> None:
        """Calls `function` when it is done, in any thread."""

    def result(self) -> T:
        """Returns the answer of a call that is done. Raises ServerError if there is none."""

    def cancel(self) -> None:
        """Says that nobody wants the answer any more."""


# What has to be waited for, and at last the result.
Steps = Generator[Call[Any], None, T]


def run(steps: Steps[T]) -> T:
    """Waits in this thread for each call in turn; returns the result."""
    with contextlib.closing(steps):
        try:
            while True:
                next(steps).wait()
        except StopIteration as stop:
            return stop.value


async def run_async(steps: Steps[T]) -> T:
    """Awaits each call in turn; returns the result. Cancelled, it cancels the calls."""
    loop = asyncio.get_running_loop()
    with contextlib.closing(steps):
        try:
            while True:
                call, done = next(steps), asyncio.Event()
                call.notify(lambda done=done: _tell(loop, done))
                await done.wait()
        except StopIteration as stop:
            return stop.value


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
        loop.call_soon_threadsafe(done.set)


def in_turn(
    batches: Iterable[T], start: Callable[[T], Call], in_flight: int
) -> Iterator[tuple[Call, T]]:
    """Starts a call for each of `batches`, and yields the calls in their order, with the batches.

    Args:
        batches: may be endless: taken only as calls are started.
        start: starts a call.
        in_flight: int >= 1. Calls under way at most. Those that are left when the iterator is
            closed are cancelled.
    """
    pending: deque[tuple[Call, T]] = deque()
    try:
        for batch in batches:
            pending.append((start(batch), batch))
            while pending and (len(pending) >= in_flight or pending[0][0].done()):
                yield pending[0]
                pending.popleft()
        while pending:
            yield pending[0]
            pending.popleft()
    finally:
        for call, _ in pending:
            call.cancel()
