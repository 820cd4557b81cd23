"""Reads the log and the record of a training run."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.config_checks import check_choice

# The names that the trainer uses, which this package does not import.
LOG_FILE, RECORD_FILE = "log.jsonl", "training.json"
DIRECTIONS = ("forward", "backward")
SCALES = ("step", "tokens", "time")
# Fields of a line of the log that are read, besides "step".
_FIELDS = ("loss", *DIRECTIONS, "learning_rate", "seconds")


@dataclass(frozen=True)
class TrainingRun:
    """The values that a training run has logged.

    Attributes:
        name: of the run, for the legend.
        steps: int (step,), ascending, at least one.
        values: those of "loss", "forward", "backward" (nats per token), "learning_rate" and
            "seconds" (of the step) that the log has: float (step,), with NaN for missing values.
        held_out_steps: int (evaluation,). The steps of the evaluations on held-out text.
        held_out: perplexities, float (evaluation,): "forward" and "backward", or only "average".
        tokens_per_step: targets of one direction, or None without a record.
    """

    name: str
    steps: np.ndarray
    values: Mapping[str, np.ndarray]
    held_out_steps: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    held_out: Mapping[str, np.ndarray] = field(default_factory=dict)
    tokens_per_step: int | None = None

    def places(self, steps: np.ndarray, by: str) -> np.ndarray:
        """Converts steps to coordinates of the horizontal axis.

        Args:
            steps: int (any,), up to the last step of the log.
            by: "step"; "tokens", the tokens read so far; or "time", the hours of all steps so far,
                without interruptions of the run.

        Raises:
            ValueError: `by` is unknown, or the run has not logged tokens or time.
        """
        check_choice(by, "by", SCALES)
        if by == "step":
            return steps
        if by == "tokens":
            if self.tokens_per_step is None:
                raise ValueError(
                    f"{self.name}: the number of tokens per step is unknown, because there is no "
                    f"complete {RECORD_FILE} beside the log. Plot by step."
                )
            return steps * self.tokens_per_step
        seconds = self.values.get("seconds")
        if seconds is None or np.isnan(seconds).any():
            raise ValueError(
                f'{self.name}: lines of the log lack the "seconds" of a step. Plot by step or '
                "tokens."
            )
        return np.interp(steps, [0, *self.steps], [0, *np.cumsum(seconds) / 3600])

    def tokens_per_second(self, window: int = 1) -> np.ndarray | None:
        """Returns the speed around each step, float (step,), or None if it was not logged.

        It is the tokens of `window` steps divided by their seconds; the mean of the steps' speeds
        would hide the time of saving and evaluation.
        """
        if self.tokens_per_step is None or "seconds" not in self.values:
            return None
        seconds = smoothed(self.values["seconds"], window)
        return self.tokens_per_step / np.where(seconds > 0, seconds, np.nan)


def read_runs(paths: Sequence[str | os.PathLike]) -> list[TrainingRun]:
    """Reads the logs of runs, which may still be running.

    Args:
        paths: work directories or logs. A run is named after its directory, or after the log if
            that was renamed; runs of the same name are named by their paths.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: a log or a record is damaged, or a log has no step.
        OSError: a file cannot be read.
    """
    logs = [Path(path) / LOG_FILE if os.path.isdir(path) else Path(path) for path in paths]
    names = [
        Path(os.path.abspath(log)).parent.name if log.name == LOG_FILE else log.stem for log in logs
    ]
    counts = Counter(names)
    return [
        _read_run(log, name if counts[name] == 1 else os.fspath(path))
        for path, log, name in zip(paths, logs, names, strict=True)
    ]


def _read_run(log: Path, name: str) -> TrainingRun:
    if not log.is_file():
        raise FileNotFoundError(
            f"There is no training log {log}. Name a work directory of elmo-tf train, or its "
            f"{LOG_FILE}."
        )
    lines: list[tuple[int, dict[str, float]]] = []
    for step, numbers in _log_lines(log):
        # A run that resumed from an earlier step has logged the later steps again.
        while lines and lines[-1][0] >= step:
            lines.pop()
        lines.append((step, numbers))
    if not lines:
        raise ValueError(f"{log} has no step.")
    columns = {
        key: np.array([numbers.get(key, math.nan) for _, numbers in lines]) for key in _FIELDS
    }
    return TrainingRun(
        name,
        np.array([step for step, _ in lines]),
        {key: column for key, column in columns.items() if not np.isnan(column).all()},
        **_record_fields(log.with_name(RECORD_FILE), last=lines[-1][0]),
    )


def _log_lines(log: Path) -> Iterator[tuple[int, dict[str, float]]]:
    with open(log, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            content = _parsed(line)
            if content is None and not line.endswith("\n"):
                return  # the line is incomplete: the run is writing it, or was killed
            is_step = isinstance(content, dict) and type(content.get("step")) is int
            if not is_step or "loss" not in content:
                raise ValueError(
                    f'{log}, line {number}: expected a JSON object with an integer "step" and a '
                    f'"loss". Received: {line.strip()[:80]!r}'
                )
            numbers = {key: content[key] for key in _FIELDS if key in content}
            for key, value in numbers.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ValueError(f"{log}, line {number}: {key} is not a number: {value!r}")
            yield content["step"], numbers


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _record_fields(path: Path, last: int) -> dict[str, Any]:
    """Reads fields of `TrainingRun` up to step `last` from `training.json`, if it exists."""
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        settings = record.get("settings", {})
        has_size = {"batch_size", "unroll"} <= set(settings)
        # A running run may have written the record after the log was read.
        rows = [row for row in record.get("perplexity", []) if row["step"] <= last]
        keys = [key for key in DIRECTIONS if rows and key in rows[0]] or ["average"]
        return {
            "tokens_per_step": settings["batch_size"] * settings["unroll"] if has_size else None,
            "held_out_steps": np.array([row["step"] for row in rows], int),
            "held_out": {key: np.array([row[key] for row in rows], float) for key in keys if rows},
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path} is not a record of elmo-tf train.") from None


def smoothed(values: np.ndarray, window: int) -> np.ndarray:
    """Computes a moving average, over fewer values at both ends; NaN is ignored.

    Args:
        values: float (any,).
        window: int >= 1; an even number is rounded up.

    Returns:
        float of the same shape; NaN where a window has only NaN.
    """
    half = window // 2
    is_number = np.isfinite(values)
    sums = np.cumsum([0.0, *np.where(is_number, values, 0)])
    counts = np.cumsum([0, *is_number])
    index = np.arange(len(values))
    first, end = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    number = counts[end] - counts[first]
    return np.where(number > 0, (sums[end] - sums[first]) / np.maximum(number, 1), np.nan)
