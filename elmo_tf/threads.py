"""How the operations of this process share the processor's cores."""

import os

import tensorflow as tf

# Widths of an LSTM's cell up to which training is faster with one thread per operation: on any
# machine, and on one with no more cores than a biLM has directions.
_SMALL_DIM = 256
_SMALL_DIM_OF_TWO_CORES = 1024


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_thread_per_operation() -> bool:
    """Has TensorFlow run each operation in one thread; several still run side by side.

    Short operations take longer when they are split over threads. It concerns all that the process
    does with TensorFlow, and must be said before TensorFlow has begun to work.

    Returns:
        Whether it was in time.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:
        return False
    return True


def share_cores_for_embedding() -> bool:
    """Does so where a biLM's two directions, side by side, keep all cores busy.

    Returns:
        Whether there are so few cores, and it was in time.
    """
    return num_cores() <= 2 and one_thread_per_operation()


def share_cores_for_training(dim: int) -> bool:
    """Does so where a biLM's operations are too short to be split over this machine's cores.

    Args:
        dim: width of the cell of an LSTM.

    Returns:
        Whether they are, and it was in time.
    """
    small = _SMALL_DIM_OF_TWO_CORES if num_cores() <= 2 else _SMALL_DIM
    return dim <= small and one_thread_per_operation()
