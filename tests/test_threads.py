import subprocess
import sys

CODE = """
import os

from elmo_tf.logs import import_tensorflow

import_tensorflow()  # the fast way
import tensorflow as tf
from elmo_tf import threads

threading = tf.config.threading
os.environ.pop("TF_NUM_INTRAOP_THREADS", None)


def threads_after(call, before=0, cores=2):
    threading.set_intra_op_parallelism_threads(before)
    threads.num_cores = lambda: cores
    call()
    print(threading.get_intra_op_parallelism_threads())


for cores in (2, 16):
    threads_after(threads.share_cores_for_embedding, cores=cores)
for cores, dim in ((2, 1024), (2, 4096), (16, 256), (16, 1024)):
    threads_after(lambda: threads.share_cores_for_training(dim), cores=cores)
threads_after(threads.one_thread_per_operation, before=3)
os.environ["TF_NUM_INTRAOP_THREADS"] = "3"
threads_after(threads.one_thread_per_operation)
del os.environ["TF_NUM_INTRAOP_THREADS"]
tf.constant(0) + 1
threads.one_thread_per_operation()
print(threading.get_intra_op_parallelism_threads())
"""


def test_operations_get_one_thread_unless_configured_or_started():
    command = [sys.executable, "-c", CODE]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert output.split() == [*"101010", *"300"]
