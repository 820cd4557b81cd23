"""What a pretraining run prints and logs: each step, the time left, evaluations."""

import math
import time
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.trainers.config import PretrainConfig
from elmo_tf.trainers.workdir import WorkDirectory

# Weight of a new step in the exponential moving average of the losses on the progress line.
_SMOOTHING = 0.02
_LARGEST_EXPONENT = 50
_DIRECTIONS = ("forward", "backward")


class TrainingLogger:
    """Logs and prints each step. `schedule` is its learning rate, `meter` counts the tokens."""

    def __init__(
        self,
        config: PretrainConfig,
        workdir: WorkDirectory,
        schedule: Callable[[int], Any],
        num_steps: int,
        meter: Any,
    ):
        self._workdir = workdir
        self._num_steps = num_steps
        self._tokens = config.batch_size * config.unroll
        self._schedule = schedule
        self._smooth: dict[str, float] = {}
        self._meter = meter
        self._last = time.monotonic()

    def step(self, step: int, losses: dict[str, float]) -> None:
        """Logs a step: losses, gradient norm, learning rate, and seconds since the last step."""
        now, rate = time.monotonic(), float(self._schedule(step - 1))
        rest = {"learning_rate": rate, "seconds": round(now - self._last, 6)}
        self._workdir.log({"step": step, **losses, **rest})
        self._last = now
        for name, value in losses.items():
            before = self._smooth.get(name, value)
            self._smooth[name] = before + _SMOOTHING * (value - before)
        perplexities = [
            f"{name} {math.exp(min(self._smooth[name], _LARGEST_EXPONENT)):.1f}"
            for name in _DIRECTIONS
            if name in losses
        ]
        self._meter.set_postfix_str(
            f"step {step}/{self._num_steps}, loss {self._smooth['loss']:.3f}, "
            f"sampled perplexity {', '.join(perplexities)}",
            refresh=False,
        )
        self._meter.update(self._tokens)

    def evaluation(self, step: int, result: dict[str, Any]) -> None:
        """Logs the perplexity of the held-out text."""
        directions = [f"{name} {result[name]:.1f}" for name in _DIRECTIONS if name in result]
        logging.info(
            "Step %d: held-out perplexity %.1f (%s; %d tokens, %s unknown).",
            *(step, result["average"], ", ".join(directions), result["tokens"]),
            f"{result['unknown']:.1%}",
        )
