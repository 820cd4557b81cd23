"""What is written to stderr: log lines, and progress (a bar, or a line every 10 seconds)."""

import io
import logging as python_logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from absl import flags, logging
from tqdm import tqdm

_PACKAGE = Path(__file__).resolve().parent
# In a checkout, two of its packages are in sibling directories.
_OURS = (_PACKAGE, _PACKAGE.parent / "trainers", _PACKAGE.parent / "saved_models")
_LINE = (
    "{desc}: {n_fmt}/{total_fmt}, {rate_noinv_fmt}, {elapsed} elapsed, {remaining} left{postfix}"
)
# 10 seconds between two lines; the average rate.
_PLAIN = {"delay": 10.0, "mininterval": 10.0, "miniters": 1, "smoothing": 0}

_warned: set[str] = set()


def warn_once(kind: str, message: str, *args: object) -> None:
    """Logs a warning, unless this process has logged one of this kind."""
    if kind not in _warned:
        _warned.add(kind)
        logging.warning(message, *args)


def plain_logs() -> None:
    """Shows log messages of this project as plain lines, and of libraries from warnings on."""
    # TensorFlow reports a missing GPU driver as an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # absl's defaults; until then it warns that they may change
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler()
    handler.python_handler.setStream(_AroundBars())
    handler.setFormatter(python_logging.Formatter("%(message)s"))
    handler.addFilter(_is_ours_or_a_warning)


class _AroundBars(io.TextIOBase):
    """Writes to stderr above the progress bar, if there is one."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)


def _is_ours_or_a_warning(record: python_logging.LogRecord) -> bool:
    path = Path(record.pathname)
    return record.levelno >= python_logging.WARNING or any(map(path.is_relative_to, _OURS))


def progress(
    total: int | None, description: str, unit: str, initial: int = 0, shown: bool = True
) -> Any:
    """Creates a progress meter of tqdm: a context manager with `update(n)` and `close()`.

    `total` is None if it is unknown; `unit` is a plural; `initial` units are already done.
    """
    meter, options = tqdm, {}
    if not sys.stderr.isatty():
        line = _LINE if total else _LINE.replace(", {remaining} left", "")
        meter, options = _PlainMeter, _PLAIN | {"bar_format": line}
    return meter(
        total=total,
        desc=description,
        unit=f" {unit}",
        unit_scale=total is None or total >= 1000,
        initial=initial,
        dynamic_ncols=True,
        disable=not shown,
        **options,
    )


def progress_over(items: Iterable[Any], total: int | None, description: str, unit: str) -> Iterator:
    """Yields the items and shows their progress."""
    with progress(total, description, unit) as meter:
        for item in items:
            yield item
            meter.update(1)


class _PlainMeter(tqdm):
    monitor_interval = 0  # no thread

    def display(self, *arguments: object) -> None:
        print(" ".join(str(self).split()), file=self.fp, flush=True)  # tqdm pads the rate

    def close(self) -> None:
        if not self.disable and self.n > self.last_print_n:
            self.display()
        self.disable = True
