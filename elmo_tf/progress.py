"""Progress on stderr: a bar on a terminal, a plain line every 10 seconds elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

# Seconds between two plain lines.
PLAIN_INTERVAL = 10.0


def progress(
    total: int | None, description: str, unit: str, initial: int = 0, shown: bool = True
) -> Any:
    """Creates a progress meter: a context manager with `update(n)`, `note(text)` and `close()`.

    Args:
        total: number of units, or None if it is unknown.
        description: a word or two, such as "embedding".
        unit: name of the units, in the plural.
        initial: units that are already done.
        shown: whether to write anything.
    """
    if not shown or sys.stderr.isatty():
        return _Bar(
            total=total,
            desc=description,
            unit=f" {unit}",
            unit_scale=True,
            initial=initial,
            dynamic_ncols=True,
            disable=not shown,
        )
    return _PlainLines(total, description, unit, initial)


def progress_over(
    items: Iterable[Item], total: int | None, description: str, unit: str
) -> Iterator:
    """Yields the items and shows their progress."""
    with progress(total, description, unit) as meter:
        for item in items:
            yield item
            meter.update(1)


class _Bar(tqdm):
    def note(self, text: str) -> None:
        self.set_postfix_str(text, refresh=False)


class _PlainLines:
    def __init__(self, total: int | None, description: str, unit: str, initial: int):
        self._total = total
        self._description = description
        self._unit = unit
        self._initial = initial
        self._done = self._written = initial
        self._note = ""
        self._start = self._last = time.monotonic()

    def update(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._last >= PLAIN_INTERVAL:
            self._write()

    def note(self, text: str) -> None:
        self._note = text

    def close(self) -> None:
        if self._done > self._written:
            self._write()

    def _write(self) -> None:
        self._last, self._written = time.monotonic(), self._done
        line = tqdm.format_meter(
            self._done,
            self._total,
            self._last - self._start,
            prefix=self._description,
            unit=f" {self._unit}",
            unit_scale=True,
            initial=self._initial,
            postfix=self._note,
            bar_format="{desc}: {n_fmt}"
            + ("/{total_fmt} ({percentage:.0f}%)" if self._total else "")
            + ", {rate_fmt}, {elapsed} elapsed"
            + (", {remaining} left{postfix}" if self._total else "{postfix}"),
        )
        print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> "_PlainLines":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
