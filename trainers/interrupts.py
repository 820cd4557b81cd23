"""SIGTERM and Ctrl-C stop a run between two steps, where nothing is lost."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class StopRequest:
    """A context manager that records SIGINT and SIGTERM instead of ending the process.

    The training loop checks `signal` between steps. A second Ctrl-C raises `KeyboardInterrupt`
    at once. Outside of the main thread, signals keep their effect.

    Attributes:
        signal: the number of the signal, or 0.
    """

    def __init__(self):
        self.signal = 0
        self._is_interruptible = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        # Python allows only the main thread to set signal handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A block that a signal ends at once, without an exception; for repeatable work."""
        self._is_interruptible = True
        try:
            yield
        except _Interrupted:
            pass
        finally:
            self._is_interruptible = False

    def end(self, number: int) -> None:
        """Ends the process as the signal would have without this class.

        Raises:
            KeyboardInterrupt: the signal was SIGINT (Ctrl-C).
            SystemExit: it was another, with the exit status of a shell, 128 + number.
        """
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        if self._is_interruptible:
            raise _Interrupted


class _Interrupted(BaseException):
    """Not an `Exception`, so that no `except Exception` on the way catches it."""
