"""The messages and the progress that are written to stderr."""

import os
import subprocess
import sys

import pytest

from elmo_tf import logs
from elmo_tf.logs import progress
from elmo_tf.trainers import steps

SCRIPT = """
import gc
import logging as python_logging
import sys
import warnings

warnings.simplefilter("ignore")
from elmo_tf.logs import plain_logs
from elmo_tf.processors import import_tensorflow

plain_logs()
import_tensorflow()
print("quiet so far", file=sys.stderr)
print("sklearn" in sys.modules, "matplotlib" in sys.modules, gc.isenabled())
plain_logs()  # a second call changes nothing

from absl import logging

for number, file in enumerate(sys.argv[1:]):
    exec(compile(f"logging.info('from us: %d', {number})", file, "exec"))
logging.info("a note of TensorFlow by absl")
python_logging.info("a note of others")
python_logging.warning("a warning of others")
python_logging.getLogger("tensorflow").warning("a warning of TensorFlow")
import matplotlib, sklearn
import tensorflow as tf
print(tf.reduce_sum([1, 2]).numpy(), matplotlib.__name__, sklearn.__name__)
"""


def test_only_our_messages_and_warnings_are_shown():
    command = [sys.executable, "-c", SCRIPT, logs.__file__, steps.__file__]
    # JAX, which TensorFlow imports, sets this variable.
    environment = {name: os.environ[name] for name in {*os.environ} - {"TF_CPP_MIN_LOG_LEVEL"}}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        *("quiet so far", "from us: 0", "from us: 1", "a warning of others")
    ]
    # Modules that Keras does not need can be imported later.
    assert result.stdout == "False False True\n3 matplotlib sklearn\n"


@pytest.fixture
def clock(monkeypatch):
    """Advances the time: `clock(seconds)`."""
    now = [100.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_lines_are_printed_at_intervals_and_at_the_end(clock, capsys):
    with progress(400, "reading", "tokens") as meter:
        for _ in range(4):
            clock(6.0)
            meter.update(100)

    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["reading: 200/400", "reading: 400/400"]


@pytest.mark.parametrize(
    ("total", "initial", "line"),
    [
        (None, 0, "reading: 20.0/?, 2.00 tokens/s, 00:10 elapsed"),
        # Initial units count for the total, but not for the rate.
        (100, 60, "reading: 80/100, 2.00 tokens/s, 00:10 elapsed, 00:10 left"),
    ],
)
def test_a_line_depends_on_the_total_and_the_initial_units(clock, capsys, total, initial, line):
    with progress(total, "reading", "tokens", initial=initial) as meter:
        clock(10.0)
        meter.update(20)
    assert capsys.readouterr().err == f"{line}\n"
