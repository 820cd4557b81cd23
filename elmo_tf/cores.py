"""The number of processor cores. Does not import TensorFlow."""

import os


def num_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
