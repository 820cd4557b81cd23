"""SIGTERM and Ctrl-C: a run is asked to stop, and stops where nothing is lost."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether the process was told to stop; a context manager that listens.

    Inside the block, a first signal raises nothing: whoever works asks `received` between two
    steps. A second one of Ctrl-C interrupts at once, as Python does.

    Attributes:
        received: the signal's number, or 0.
    """

    def __init__(self):
        self.received = 0
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        # Only the main thread may listen; elsewhere whoever started the thread does.
        if threading.current_thread() is threading.main_thread():
            heard = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def breaking(self) -> Iterator[None]:
        """A block that a signal ends at once, since all that it does can be done again."""
        self._at_once = True
        try:
            yield
        except _Broken:
            pass
        finally:
            self._at_once = False

    def end(self, number: int) -> None:
        """Ends the process's work as the signal would have, had nobody listened.

        Raises:
            KeyboardInterrupt: it was Ctrl-C.
            SystemExit: it was SIGTERM; with the status that a shell gives.
        """
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
        if self._at_once:
            raise _Broken


class _Broken(BaseException):
    """Not an `Exception`, so that nothing on the way takes it for an error."""
