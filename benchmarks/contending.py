"""What all contenders do: train some steps when a line says so, and tell how long each took."""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The first steps build the graph, and choose kernels for shapes not seen before.
_WARM_UP = 3


def obey(step: Callable[[int], float], num_windows: int) -> None:
    """Reads numbers of steps from stdin, and answers each with one JSON object on stdout.

    Args:
        step: trains on the window of that index, and gives its loss.
        num_windows: windows there are; they are taken in turn, over and over.
    """
    taken = 0
    for _ in range(_WARM_UP):
        step(taken % num_windows)
        taken += 1
    _answer({"ready": True})
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            loss = step(taken % num_windows)
            seconds.append(time.perf_counter() - start)
            taken += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
        _answer({"seconds": seconds, "loss": loss, "peak_mib": peak})


def sentence_groups(*more: str) -> tuple[list[list[list[str]]], argparse.Namespace]:
    """The sentences of each turn, from the command line, and its other arguments.

    Args:
        more: names of arguments beside `sentences` and `checkpoint`.
    """
    parser = argparse.ArgumentParser()
    for name in ("sentences", "checkpoint", *more):
        parser.add_argument(name)
    arguments = parser.parse_args()
    return json.loads(Path(arguments.sentences).read_text(encoding="utf-8")), arguments


def _answer(content: dict) -> None:
    # Libraries may print to stdout too: the caller looks for this mark.
    print("ANSWER", json.dumps(content), flush=True)
