import subprocess
import sys

import pytest
import tensorflow as tf

from elmo_tf import processors


@pytest.mark.parametrize(
    ("flags", "requested", "usable"),
    [
        ("avx512_bf16", "mixed_bfloat16", "mixed_bfloat16"),
        ("avx512f amx_bf16", "mixed_bfloat16", "mixed_bfloat16"),
        ("avx512f", "mixed_bfloat16", "float32"),
        ("avx512_bf16x", "mixed_bfloat16", "float32"),
        ("avx512f", "float32", "float32"),
    ],
)
def test_float32_replaces_unsupported_bfloat16_with_a_warning(
    tmp_path, monkeypatch, caplog, flags, requested, usable
):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse\n")
    monkeypatch.setattr(processors, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    assert processors.usable_precision(requested) == usable
    warned = "using float32 instead of mixed_bfloat16" in caplog.text
    assert warned == (requested != usable) == bool(caplog.text)


CODE = """
import os

from elmo_tf import processors

processors.import_tensorflow()  # the fast way
import tensorflow as tf

threading = tf.config.threading
os.environ.pop("TF_NUM_INTRAOP_THREADS", None)


def threads_after(call, before=0, cores=2):
    threading.set_intra_op_parallelism_threads(before)
    processors.num_cores = lambda: cores
    call()
    print(threading.get_intra_op_parallelism_threads())


for cores in (2, 16):
    threads_after(processors.share_cores_for_embedding, cores=cores)
for cores, dim in ((2, 1024), (2, 4096), (16, 256), (16, 1024)):
    threads_after(lambda: processors.share_cores_for_training(dim), cores=cores)
threads_after(processors.one_thread_per_operation, before=3)
os.environ["TF_NUM_INTRAOP_THREADS"] = "3"
threads_after(processors.one_thread_per_operation)
del os.environ["TF_NUM_INTRAOP_THREADS"]
tf.constant(0) + 1
processors.one_thread_per_operation()
print(threading.get_intra_op_parallelism_threads())
"""


def test_operations_get_one_thread_unless_configured_or_started():
    command = [sys.executable, "-c", CODE]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert output.split() == [*"101010", *"300"]
