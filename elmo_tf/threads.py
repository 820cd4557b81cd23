"""Number of processor cores, and TensorFlow's threads per operation."""

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


def one_thread_per_operation() -> bool:
    """Makes TensorFlow run each operation in one thread; operations still run in parallel.

    Short operations are slower when they are split over threads. The setting applies to the
    complete process and must be made before TensorFlow is initialized. A number that the caller
    chose, in TensorFlow or by `TF_NUM_INTRAOP_THREADS`, is kept.

    Returns:
        Whether the setting was changed.
    """
    threading = tf.config.threading
    if threading.get_intra_op_parallelism_threads() or os.getenv("TF_NUM_INTRAOP_THREADS"):
        return False
    try:
        threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return False
    return True


def limit_threads(num_threads: int) -> bool:
    """Limits TensorFlow to some threads, for several processes on one machine.

    Args:
        num_threads: int >= 1. Operations that run in parallel, each in one thread.

    Returns:
        See `one_thread_per_operation`.
    """
    try:
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    except RuntimeError:
        return False
    return one_thread_per_operation()


def share_cores_for_embedding() -> bool:
    """Calls `one_thread_per_operation` if the two directions of a biLM keep all cores busy.

    Returns:
        Whether the setting was changed.
    """
    return num_cores() <= 2 and one_thread_per_operation()


def share_cores_for_training(dim: int) -> bool:
    """Calls `one_thread_per_operation` if a biLM's operations are too short to be split.

    Args:
        dim: int. Width of the LSTM cell.

    Returns:
        Whether the setting was changed.
    """
    small = _SMALL_DIM_OF_TWO_CORES if num_cores() <= 2 else _SMALL_DIM
    return dim <= small and one_thread_per_operation()
