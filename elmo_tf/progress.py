"""Progress on stderr: a bar on a terminal, a plain line every 10 seconds elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tqdm import tqdm

# Seconds between two plain lines.
PLAIN_INTERVAL = 10.0
_KNOWN_TOTAL = (
    "{desc}: {n_fmt}/{total_fmt} ({percentage:.0f}%), {rate_noinv_fmt}, {elapsed} elapsed, "
    "{remaining} left{postfix}"
)
_UNKNOWN_TOTAL = "{desc}: {n_fmt}, {rate_noinv_fmt}, {elapsed} elapsed{postfix}"


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
    meter = _Meter if not shown or sys.stderr.isatty() else _PlainMeter
    return meter(
        total=total,
        desc=description,
        unit=f" {unit}",
        unit_scale=total is None or total >= 1000,
        initial=initial,
        dynamic_ncols=True,
        disable=not shown,
    )


def progress_over(items: Iterable[Any], total: int | None, description: str, unit: str) -> Iterator:
    """Yields the items and shows their progress."""
    with progress(total, description, unit) as meter:
        for item in items:
            yield item
            meter.update(1)


class _Meter(tqdm):
    def note(self, text: str) -> None:
        self.set_postfix_str(text, refresh=False)


class _PlainMeter(_Meter):
    monitor_interval = 0  # no thread

    def __init__(self, total: int | None, **kwargs):
        super().__init__(
            total=total,
            bar_format=_KNOWN_TOTAL if total else _UNKNOWN_TOTAL,
            delay=PLAIN_INTERVAL,
            mininterval=PLAIN_INTERVAL,
            miniters=1,
            smoothing=0,  # the average rate
            **kwargs,
        )

    def display(self, *arguments: object) -> None:
        print(" ".join(str(self).split()), file=self.fp, flush=True)  # tqdm pads the rate

    def close(self) -> None:
        if not self.disable and self.n > self.last_print_n:
            self.display()
        self.disable = True
