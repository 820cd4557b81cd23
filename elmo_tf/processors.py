"""How a process uses the machine: its cores, threads, precision, and its import of TensorFlow.

TensorFlow is imported in functions, because not every command that counts cores needs it.
"""

import contextlib
import functools
import gc
import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from elmo_tf.logs import warn_once

# Precisions of a biLM's matrix products, with their Keras dtype policies.
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
CPU_INFO = Path("/proc/cpuinfo")


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras without their messages, in 1.5 s of CPU time instead of 2.8 s.

    It leaves out garbage collection, and packages that only `keras.visualization`, `keras.wrappers`
    and TensorFlow's converter of JAX models need. Call it while the process has a single thread.
    """
    if "keras" in sys.modules:
        return
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # what C++ writes ignores the log levels
    gc.disable()
    try:
        with left_out("jax", "matplotlib", "sklearn"):
            importlib.import_module("keras")
    finally:
        gc.enable()
        gc.freeze()  # later collections leave out the objects that exist now
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


@contextlib.contextmanager
def left_out(*modules: str) -> Iterator[None]:
    """Imports of these modules raise `ImportError`, unless they are imported already."""
    missing = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(missing))
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


def num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def one_thread_per_operation() -> None:
    """Makes TensorFlow run each operation in one thread; operations still run in parallel.

    Short operations are slower when they are split over threads. It has no effect once TensorFlow
    is initialized, or if the caller has chosen a number, in TensorFlow or in its environment.
    """
    import tensorflow as tf

    threading = tf.config.threading
    if threading.get_intra_op_parallelism_threads() or os.getenv("TF_NUM_INTRAOP_THREADS"):
        return
    with contextlib.suppress(RuntimeError):
        threading.set_intra_op_parallelism_threads(1)


def share_cores_for_embedding() -> None:
    """Calls `one_thread_per_operation` if the two directions of a biLM keep all cores busy."""
    if num_cores() <= 2:
        one_thread_per_operation()


def share_cores_for_training(dim: int) -> None:
    """Calls `one_thread_per_operation` if the operations of LSTM cells of width `dim` are short."""
    # Measured limits; with two cores, each direction of a biLM has one.
    if dim <= (1024 if num_cores() <= 2 else 256):
        one_thread_per_operation()


def usable_precision(precision: str) -> str:
    """The precision, or "float32" with a warning if bfloat16 is up to 100 times slower here."""
    import tensorflow as tf

    if "bfloat16" not in precision or tf.config.list_physical_devices("GPU"):
        return precision
    if re.search(r"^flags.* (avx512_bf16|amx_bf16)\b", CPU_INFO.read_text(), re.MULTILINE):
        return precision
    warn_once(
        "bfloat16",
        "This machine has no GPU, and its processor has none of the instructions amx_bf16, "
        "avx512_bf16: using float32 instead of %s, which would be much slower.",
        precision,
    )
    return "float32"


_first_process = functools.cache(os.getpid)  # the process that first built a biLM


def is_forked() -> bool:
    """Whether this process was forked from one that had built a biLM."""
    return _first_process() != os.getpid()


def refuse_fork() -> None:
    """Raises `RuntimeError` if `is_forked`: TensorFlow would hang, because its threads are gone."""
    if is_forked():
        raise RuntimeError(
            "This process was forked from one that had loaded a model, and TensorFlow does not "
            'work after a fork. Start processes with multiprocessing.get_context("spawn"), or call '
            'multiprocessing.set_start_method("spawn") first.'
        )
