"""What a pretraining run prints and logs: each step, the time left, evaluations; TensorBoard."""

import contextlib
import json
import math
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from elmo_tf.logs import progress
from elmo_tf.trainers.config import PretrainConfig
from elmo_tf.trainers.workdir import LOG_FILE, WorkDirectory

TENSORBOARD_FOLDER = "tensorboard"
# Weight of a new step in the exponential moving average of the losses on the progress line.
_SMOOTHING = 0.02
_LARGEST_EXPONENT = 50


class TrainingLogger(contextlib.ExitStack):
    """Logs and prints each step; a context manager. Only the chief prints.

    Args:
        config: the settings of the run.
        workdir: its work directory, with the log.
        schedule: the learning rate of each step.
        num_steps: int. Steps in total.
        first: int >= 0. Steps done before this start.
        is_chief: whether this process writes.
    """

    def __init__(
        self,
        config: PretrainConfig,
        workdir: WorkDirectory,
        schedule: Callable[[int], Any],
        num_steps: int,
        first: int,
        is_chief: bool,
    ):
        super().__init__()
        self._workdir = workdir
        self._num_steps = num_steps
        self._tokens = tokens = config.batch_size * config.unroll
        self._schedule = schedule
        self._smooth: dict[str, float] = {}
        self._board: tf.summary.SummaryWriter | None = None
        if is_chief and config.tensorboard:
            self._board = tf.summary.create_file_writer(str(workdir.path / TENSORBOARD_FOLDER))
            self.callback(self._board.close)
        total, done = num_steps * tokens, first * tokens
        self._meter = progress(total, "training", "tokens", initial=done, shown=is_chief)
        self.callback(self._meter.close)
        self._last = time.monotonic()
        if is_chief and first > 0:
            self._warn_of_rise(first)

    def step(self, step: int, losses: dict[str, float]) -> None:
        """Logs a step: losses, gradient norm, learning rate, and seconds since the last step."""
        learning_rate = float(self._schedule(step - 1))
        now = time.monotonic()
        rest = {"learning_rate": learning_rate, "seconds": round(now - self._last, 6)}
        self._workdir.log({"step": step, **losses, **rest})
        self._last = now
        for name, value in losses.items():
            before = self._smooth.get(name, value)
            self._smooth[name] = before + _SMOOTHING * (value - before)
        perplexities = [
            f"{name} {math.exp(min(self._smooth[name], _LARGEST_EXPONENT)):.1f}"
            for name in ("forward", "backward")
            if name in losses
        ]
        self._meter.set_postfix_str(
            f"step {step}/{self._num_steps}, loss {self._smooth['loss']:.3f}, "
            f"sampled perplexity {', '.join(perplexities)}",
            refresh=False,
        )
        self._meter.update(self._tokens)
        if self._board is None:
            return
        with self._board.as_default(step=step):
            for name, value in losses.items():
                group = "gradient" if name == "norm" else "loss"
                tf.summary.scalar(f"{group}/{name}", value)
            tf.summary.scalar("learning_rate", learning_rate)

    def _warn_of_rise(self, done: int) -> None:
        """Warns if the step `done` had a lower rate than in a run of this number of steps."""
        lines = (self._workdir.path / LOG_FILE).read_text(encoding="utf-8").splitlines()
        before = json.loads(lines[-1])["learning_rate"] if lines else math.inf
        if float(self._schedule(done - 1)) > 1.001 * before:
            logging.warning(
                "The learning rate rises from %.2g to %.2g, because the schedule now ends at step "
                "%s. The loss may rise at first. To extend runs, use --schedule constant from "
                "the beginning.",
                *(before, float(self._schedule(done)), f"{self._num_steps:,}"),
            )

    def evaluation(self, step: int, result: dict[str, Any]) -> None:
        """Logs the perplexity of the held-out text."""
        perplexities = {
            name: result[name] for name in ("forward", "backward", "average") if name in result
        }
        directions = [
            f"{name} {value:.1f}" for name, value in perplexities.items() if name != "average"
        ]
        logging.info(
            "Step %d: held-out perplexity %.1f (%s; %d tokens, %s unknown).",
            *(step, result["average"], ", ".join(directions), result["tokens"]),
            f"{result['unknown']:.1%}",
        )
        if self._board is not None:
            with self._board.as_default(step=step):
                for name, value in perplexities.items():
                    tf.summary.scalar(f"held_out_perplexity/{name}", value)
