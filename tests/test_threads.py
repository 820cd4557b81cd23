import subprocess
import sys

import pytest
import tensorflow as tf

from elmo_tf import threads

CODE = """
from elmo_tf import threads
threads.num_cores = lambda: {cores}
import tensorflow as tf
print(threads.share_cores_for_embedding(), tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.parametrize(("cores", "printed"), [(2, "True 1"), (16, "False 0")])
def test_few_cores_get_one_thread_per_operation(cores, printed):
    command = [sys.executable, "-c", CODE.format(cores=cores)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert output.split() == printed.split()


def test_that_tensorflow_has_begun_to_work_is_told():
    tf.constant(0) + 1

    assert not threads.one_thread_per_operation()
