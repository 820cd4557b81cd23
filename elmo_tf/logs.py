"""Logging of the command line: plain lines of this project, and warnings of libraries."""

import gc
import importlib
import io
import logging as python_logging
import os
import sys
from pathlib import Path

from absl import flags, logging
from tqdm import tqdm

from elmo_tf.lazy import left_out

_PACKAGE = Path(__file__).resolve().parent
# In a checkout, two of its packages are in sibling directories.
_OURS = (_PACKAGE, _PACKAGE.parent / "trainers", _PACKAGE.parent / "saved_models")

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


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras without their messages, in a third of the CPU time.

    Without matplotlib and scikit-learn, which Keras imports for `keras.wrappers` and
    `keras.visualization` alone, and without garbage collection, the import takes 1.2 s of CPU time
    instead of 3.4 s. Call it while the process has a single thread.
    """
    if "keras" in sys.modules:
        return
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # what C++ writes ignores the log levels
    gc.disable()
    try:
        with left_out("matplotlib", "sklearn"):
            importlib.import_module("keras")
    finally:
        gc.enable()
        gc.freeze()  # later collections leave out the objects that exist now
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


class _AroundBars(io.TextIOBase):
    """Writes to stderr above the progress bar, if there is one."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_ours_or_a_warning(record: python_logging.LogRecord) -> bool:
    if record.levelno >= python_logging.WARNING:
        return True
    return any(Path(record.pathname).is_relative_to(folder) for folder in _OURS)
