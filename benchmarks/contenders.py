"""Processes that run the same benchmark alternately, so that machine noise affects all alike."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np


class Contender:
    """A worker process that runs steps on request, see `worker.run_steps`.

    Args:
        command: of the process.
        environment: variables to add to those of this process.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None):
        self.seconds: list[float] = []
        self.ratios: list[float] = []
        self.peak_mib = 0.0
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        )
        self._answer()

    def run(self, num_steps: int) -> float:
        """Runs some steps and returns the median of their seconds."""
        print(num_steps, file=self._process.stdin, flush=True)
        answer = self._answer()
        self.seconds += answer["seconds"]
        self.peak_mib = answer["peak_mib"]
        return float(np.median(answer["seconds"]))

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> dict:
        for line in self._process.stdout:
            mark, _, content = line.partition(" ")
            if mark == "ANSWER":
                return json.loads(content)
        self._errors.seek(0)
        raise RuntimeError(f"A contender has stopped:\n{self._errors.read()}")


def compete(contenders: Mapping[str, Contender], peers: Sequence[str], rounds: int, steps: int):
    """Runs all contenders alternately, records their speed relative to the faster peer, ends them.

    Args:
        contenders: by name.
        peers: names of the contenders to compare with; may be empty.
        rounds: of all contenders.
        steps: of each contender in a round.
    """
    try:
        for _ in range(rounds):
            seconds = {name: contender.run(steps) for name, contender in contenders.items()}
            best = min((seconds[name] for name in peers), default=np.nan)
            for name, contender in contenders.items():
                contender.ratios.append(best / seconds[name])
    finally:
        for contender in contenders.values():
            contender.close()


def ratios(contender: Contender) -> dict:
    """The median of a contender's ratios and all of them; empty without a peer."""
    if np.isnan(contender.ratios).any():
        return {}
    return {
        "ratio_to_peer": round(float(np.median(contender.ratios)), 2),
        "ratios": [round(ratio, 2) for ratio in contender.ratios],
    }
