"""A check that TensorFlow is not used in a forked process, where it would hang."""

import os

# The process in which an `Embedder` was first used. A fork does not copy TensorFlow's threads.
_first_process: int | None = None


def is_forked() -> bool:
    """Whether this process was forked from a process that had used an `Embedder`."""
    return _first_process not in (None, os.getpid())


def refuse_fork() -> None:
    """Records this process as a user of TensorFlow.

    Raises:
        RuntimeError: it was forked from a process that had used an `Embedder`.
    """
    global _first_process
    if is_forked():
        raise RuntimeError(
            "This process was forked from one that had used an Embedder, and TensorFlow does not "
            "work after a fork. Start processes in another way: "
            'multiprocessing.get_context("spawn"), or joblib with its default backend, loky.'
        )
    _first_process = os.getpid()
