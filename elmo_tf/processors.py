"""Processor cores, threads per operation, bfloat16 support, and Keras dtype policies."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import keras
import tensorflow as tf

from elmo_tf.cores import num_cores
from elmo_tf.logs import warn_once

# Precisions of a biLM's matrix products, with their Keras dtype policies.
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
_CPU_FLAGS = Path("/proc/cpuinfo")
_FAST_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
# Largest LSTM cell width for which training is faster with one thread per operation: on machines
# with more than two cores, and on those with at most two, one for each direction of a biLM.
_SMALL_DIM = 256
_SMALL_DIM_OF_TWO_CORES = 1024


def one_thread_per_operation() -> None:
    """Makes TensorFlow run each operation in one thread; operations still run in parallel.

    Short operations are slower when they are split over threads. The setting applies to the
    complete process and has no effect once TensorFlow is initialized. A number that the caller
    chose, in TensorFlow or by `TF_NUM_INTRAOP_THREADS`, is kept.
    """
    threading = tf.config.threading
    if threading.get_intra_op_parallelism_threads() or os.getenv("TF_NUM_INTRAOP_THREADS"):
        return
    with contextlib.suppress(RuntimeError):
        threading.set_intra_op_parallelism_threads(1)


def limit_threads(num_threads: int) -> None:
    """Limits the operations that run in parallel, each in one thread.

    For several processes on one machine.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
        one_thread_per_operation()


def share_cores_for_embedding() -> None:
    """Calls `one_thread_per_operation` if the two directions of a biLM keep all cores busy."""
    if num_cores() <= 2:
        one_thread_per_operation()


def share_cores_for_training(dim: int) -> None:
    """Calls `one_thread_per_operation` if the operations of LSTM cells of width `dim` are short."""
    if dim <= (_SMALL_DIM_OF_TWO_CORES if num_cores() <= 2 else _SMALL_DIM):
        one_thread_per_operation()


def usable_precision(precision: str) -> str:
    """Returns a Keras dtype policy, or "float32" with a warning if bfloat16 is slow here.

    Processors without bfloat16 instructions may take 100 times longer than with float32.
    """
    if "bfloat16" not in precision or tf.config.list_physical_devices("GPU"):
        return precision
    lines = []
    with contextlib.suppress(OSError):
        lines = _CPU_FLAGS.read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    if not _FAST_FLAGS.isdisjoint(flags):
        return precision
    warn_once(
        "bfloat16",
        "This machine has no GPU, and its processor has none of the instructions %s: using "
        "float32 instead of %s, which would be much slower.",
        ", ".join(sorted(_FAST_FLAGS)),
        precision,
    )
    return "float32"


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Context manager: layers created in the block get this Keras dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


# The process in which an `Embedder` was first used. A fork does not copy TensorFlow's threads.
_first_process: int | None = None


def is_forked() -> bool:
    """Whether this process was forked from a process that had used an `Embedder`."""
    return _first_process not in (None, os.getpid())


def refuse_fork() -> None:
    """Records this process as a user of TensorFlow, which would hang in a forked process.

    Raises:
        RuntimeError: the process was forked from one that had used an `Embedder`.
    """
    global _first_process
    if is_forked():
        raise RuntimeError(
            "This process was forked from one that had used an Embedder, and TensorFlow does not "
            "work after a fork. Start processes in another way: "
            'multiprocessing.get_context("spawn"), or joblib with its default backend, loky.'
        )
    _first_process = os.getpid()
