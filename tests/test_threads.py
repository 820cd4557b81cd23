import subprocess
import sys

import pytest

CODE = """
from elmo_tf import threads
threads.num_cores = lambda: {cores}
import tensorflow as tf
print({call}, tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(
    ("cores", "call", "printed"),
    [
        (2, "threads.share_cores_for_embedding()", "True 1"),
        (16, "threads.share_cores_for_embedding()", "False 0"),
        (2, "threads.share_cores_for_training(1024)", "True 1"),
        (2, "threads.share_cores_for_training(4096)", "False 0"),
        (16, "threads.share_cores_for_training(256)", "True 1"),
        (16, "threads.share_cores_for_training(1024)", "False 0"),
    ],
)
def test_short_operations_get_one_thread_each(cores, call, printed):
    command = [sys.executable, "-c", CODE.format(cores=cores, call=call)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert output.split() == printed.split()


def test_that_tensorflow_has_begun_to_work_is_told():
    code = (
        "import tensorflow as tf\n"
        "from elmo_tf.threads import one_thread_per_operation\n"
        "tf.constant(0) + 1\n"
        "print(one_thread_per_operation())\n"
    )
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert output.split() == ["False"]
