import subprocess
import sys

CODE = """
import os

from elmo_tf.logs import import_tensorflow

import_tensorflow()  # the fast way
import tensorflow as tf
from elmo_tf import threads

os.environ.pop("TF_NUM_INTRAOP_THREADS", None)
for cores, share in (
    (2, lambda: threads.share_cores_for_embedding()),
    (16, lambda: threads.share_cores_for_embedding()),
    (2, lambda: threads.share_cores_for_training(1024)),
    (2, lambda: threads.share_cores_for_training(4096)),
    (16, lambda: threads.share_cores_for_training(256)),
    (16, lambda: threads.share_cores_for_training(1024)),
):
    tf.config.threading.set_intra_op_parallelism_threads(0)
    threads.num_cores = lambda: cores
    share()
    print(tf.config.threading.get_intra_op_parallelism_threads())
tf.config.threading.set_intra_op_parallelism_threads(3)
threads.one_thread_per_operation()
print(tf.config.threading.get_intra_op_parallelism_threads())
tf.config.threading.set_intra_op_parallelism_threads(0)
os.environ["TF_NUM_INTRAOP_THREADS"] = "3"
threads.one_thread_per_operation()
print(tf.config.threading.get_intra_op_parallelism_threads())
del os.environ["TF_NUM_INTRAOP_THREADS"]
tf.constant(0) + 1
threads.one_thread_per_operation()
print(tf.config.threading.get_intra_op_parallelism_threads())
"""


def test_operations_get_one_thread_unless_configured_or_started():
    command = [sys.executable, "-c", CODE]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert output.split() == [*"101010", *"300"]
