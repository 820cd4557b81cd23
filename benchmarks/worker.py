"""The worker's side of `contenders.py`: runs and times steps on request."""

import json
import resource
import sys
import time
from collections.abc import Callable

# The first steps build the graph and choose kernels for new shapes.
_WARM_UP = 3


def run_steps(step: Callable[[int], float], num_inputs: int) -> None:
    """Reads numbers of steps from stdin, one per line, and answers each with a JSON object.

    Args:
        step: takes the index of an input and returns a number, such as a loss.
        num_inputs: inputs are used in order, over and over.
    """
    taken = 0
    for _ in range(_WARM_UP):
        step(taken % num_inputs)
        taken += 1
    _answer({"ready": True})
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step(taken % num_inputs)
            seconds.append(time.perf_counter() - start)
            taken += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
        _answer({"seconds": seconds, "peak_mib": peak})


def _answer(content: dict) -> None:
    # The mark tells answers from lines that libraries print to stdout.
    print("ANSWER", json.dumps(content), flush=True)
