"""What a process of its own writes to stderr."""

import importlib.util
import logging
import shutil
import subprocess
import sys

import pytest

from elmo_tf import logs

SCRIPT = """
import logging as python_logging
import sys
import warnings

warnings.simplefilter("ignore")
from elmo_tf.logs import import_tensorflow, plain_logs

plain_logs()
import_tensorflow()
print("quiet so far", file=sys.stderr)
plain_logs()  # twice is as good as once

from absl import logging

exec(compile("logging.info('from us: %d', 7)", OUR_FILE, "exec"))
logging.info("an absl note of others")
logging.warning("an absl warning of others")
python_logging.info("a note of others")
python_logging.getLogger("tensorflow").warning("a warning of TensorFlow")
import tensorflow as tf
print(tf.reduce_sum([1, 2]).numpy())
"""


@pytest.fixture(scope="module")
def finished():
    """The process, once it has ended."""
    script = SCRIPT.replace("OUR_FILE", repr(logs.__file__))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


@pytest.fixture(scope="module")
def lines(finished):
    return finished.stderr.splitlines()


def test_tensorflow_is_imported_without_a_word_and_stderr_comes_back(finished, lines):
    assert finished.returncode == 0, finished.stderr
    assert lines[0] == "quiet so far"
    assert finished.stdout == "3\n"


def test_our_notes_are_plain_lines(lines):
    assert lines.count("from us: 7") == 1


def test_of_others_only_warnings_are_shown(lines):
    assert "an absl warning of others" in lines
    assert not any("note of others" in line for line in lines)


def test_warnings_of_tensorflow_are_left_out(lines):
    assert lines == ["quiet so far", "from us: 7", "an absl warning of others"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("site-packages/elmo_tf/trainers/steps.py", True),
        ("site-packages/tensorflow/python/framework.py", False),
        ("site-packages/elmo_tf_more/steps.py", False),
    ],
)
def test_beside_other_packages_only_ours_is_ours(path, shown, tmp_path):
    # As it is installed from a wheel.
    home = tmp_path / "site-packages" / "elmo_tf"
    home.mkdir(parents=True)
    shutil.copy(logs.__file__, home)
    spec = importlib.util.spec_from_file_location("installed_logs", home / "logs.py")
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    note = logging.LogRecord("absl", logging.INFO, str(tmp_path / path), 1, "a note", (), None)

    assert installed._is_ours_or_a_warning(note) == shown


def test_what_keras_does_without_can_be_imported_afterwards():
    code = (
        "import gc, sys\n"
        "from elmo_tf.logs import import_tensorflow\n"
        "import_tensorflow()\n"
        "print('sklearn' in sys.modules, 'matplotlib' in sys.modules, gc.isenabled())\n"
        "import matplotlib, sklearn\n"
        "print(sklearn.__name__, matplotlib.__name__)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout.split() == ["False", "False", "True", "sklearn", "matplotlib"]
