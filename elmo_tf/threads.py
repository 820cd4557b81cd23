"""Number of processor cores, and TensorFlow's threads per operation."""

import contextlib
import os

import tensorflow as tf

# Largest LSTM cell width for which training is faster with one thread per operation: on machines
# with more than two cores, and on those with at most two, one for each direction of a biLM.
_SMALL_DIM = 256
_SMALL_DIM_OF_TWO_CORES = 1024


def num_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
