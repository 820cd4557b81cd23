"""The messages that a new process writes to stderr."""

import subprocess
import sys

from elmo_tf import logs
from elmo_tf.trainers import steps

SCRIPT = """
import gc
import logging as python_logging
import sys
import warnings

warnings.simplefilter("ignore")
from elmo_tf.logs import import_tensorflow, plain_logs

plain_logs()
import_tensorflow()
print("quiet so far", file=sys.stderr)
print("sklearn" in sys.modules, "matplotlib" in sys.modules, gc.isenabled())
plain_logs()  # a second call changes nothing

from absl import logging

for number, file in enumerate(sys.argv[1:]):
    exec(compile(f"logging.info('from us: %d', {number})", file, "exec"))
logging.info("an absl note of others")
logging.warning("an absl warning of others")
python_logging.info("a note of others")
python_logging.getLogger("tensorflow").warning("a warning of TensorFlow")
import matplotlib, sklearn
import tensorflow as tf
print(tf.reduce_sum([1, 2]).numpy(), matplotlib.__name__, sklearn.__name__)
"""


def test_only_our_messages_and_absl_warnings_are_shown():
    command = [sys.executable, "-c", SCRIPT, logs.__file__, steps.__file__]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        *("quiet so far", "from us: 0", "from us: 1", "an absl warning of others")
    ]
    # Modules that Keras does not need can be imported later.
    assert result.stdout == "False False True\n3 matplotlib sklearn\n"
