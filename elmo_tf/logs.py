"""What a command writes to stderr: its own plain lines, and of libraries only what matters."""

import contextlib
import gc
import importlib
import io
import logging as python_logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from absl import flags, logging
from tqdm import tqdm

_PACKAGE = Path(__file__).resolve().parent
# In a checkout, two of its packages lie beside it.
_OURS = (_PACKAGE, _PACKAGE.parent / "trainers", _PACKAGE.parent / "saved_models")

_OPTIONAL_OF_KERAS = ("matplotlib", "sklearn")


def plain_logs() -> None:
    """Shows this project's notes as plain lines, and those of libraries from warnings on."""
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


def import_tensorflow() -> None:
    """Imports TensorFlow without the notes that it writes before any log level takes effect.

    It takes half of the time that it would: nothing of what it makes becomes garbage, so that none
    is looked for, and Keras is kept from importing what it needs for wrappers and pictures alone.
    The process has no other threads yet, and does without `keras.wrappers`.
    """
    if "keras" in sys.modules:
        return
    with _no_stderr(), _no_garbage_collection(), _not_found(_OPTIONAL_OF_KERAS):
        importlib.import_module("tensorflow")
        importlib.import_module("keras")


@contextlib.contextmanager
def _no_stderr() -> Iterator[None]:
    """Drops what is written to stderr, by C++ too."""
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Looks for no garbage meanwhile, and never again among what there is afterwards."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@contextlib.contextmanager
def _not_found(modules: Iterable[str]) -> Iterator[None]:
    """Makes an import of these modules an ImportError."""
    left_out = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))
    try:
        yield
    finally:
        for name in left_out:
            sys.modules.pop(name, None)


class _AroundBars(io.TextIOBase):
    """Writes to stderr above a progress bar, if there is one."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_ours_or_a_warning(record: python_logging.LogRecord) -> bool:
    if record.levelno >= python_logging.WARNING:
        return True
    return any(Path(record.pathname).is_relative_to(folder) for folder in _OURS)
