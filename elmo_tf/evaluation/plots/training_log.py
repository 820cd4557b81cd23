"""The log and the record of a training run ─► numbers by step, by tokens or by hours."""

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

# As the trainer names them, which this package does not import.
LOG_FILE, RECORD_FILE = "log.jsonl", "training.json"
DIRECTIONS = ("forward", "backward")
SCALES = ("step", "tokens", "time")
# What a line of the log may hold besides its step.
_NUMBERS = ("loss", *DIRECTIONS, "learning_rate", "seconds")


@dataclass(frozen=True)
class TrainingRun:
    """The numbers of a run.

    name: what it is called in a picture.
    steps: int (step,), rising, at least one.
    values: "loss", "forward" and "backward" (nats per token), "learning_rate" and "seconds" (of the
        step), those that the log has: float (step,), with NaN for none.
    held_out_steps: int (evaluation,), of the looks at held-out text.
    held_out: "forward" and "backward", or "average" alone: perplexities, float (evaluation,).
    tokens_per_step: targets of one direction, or None if no record tells.
    """

    name: str
    steps: np.ndarray
    values: Mapping[str, np.ndarray]
    held_out_steps: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    held_out: Mapping[str, np.ndarray] = field(default_factory=dict)
    tokens_per_step: int | None = None

    def places(self, steps: np.ndarray, by: str) -> np.ndarray:
        """Where steps stand on an axis.

        Args:
            steps: int (any,), none after the last of the log.
            by: "step"; "tokens", those read since the beginning; or "time", hours in steps since
                the beginning, without the time between two starts.

        Raises:
            ValueError: an unknown axis, or the run does not tell of tokens or of time.
        """
        check_choice(by, "by", SCALES)
        if by == "step":
            return steps
        if by == "tokens":
            if self.tokens_per_step is None:
                raise ValueError(
                    f"{self.name}: no {RECORD_FILE} beside the log tells how many tokens a step "
                    "has. Draw it by steps."
                )
            return steps * self.tokens_per_step
        seconds = self.values.get("seconds")
        if seconds is None or np.isnan(seconds).any():
            raise ValueError(
                f'{self.name}: lines of the log do not tell the "seconds" of a step. Draw it by '
                "steps or tokens."
            )
        return np.interp(steps, [0, *self.steps], [0, *np.cumsum(seconds) / 3600])

    def tokens_per_second(self, window: int = 1) -> np.ndarray | None:
        """The speed around each step, float (step,); None if the run does not tell it.

        It is the tokens of `window` steps by their seconds: the mean of the steps' speeds would
        hardly show what saving and evaluating take.
        """
        if self.tokens_per_step is None or "seconds" not in self.values:
            return None
        seconds = smoothed(self.values["seconds"], window)
        return self.tokens_per_step / np.where(seconds > 0, seconds, np.nan)


def read_runs(paths: Sequence[str | os.PathLike]) -> list[TrainingRun]:
    """Reads the logs of runs, one of which may still be written.

    Args:
        paths: of work directories, or of logs. A run is named after its directory, or after a log
            that was given another name; where two would have one name, as they were given.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: a log or a record is broken, or a log has no step.
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
            f"There is no training log {log}. Name the work directory of elmo-tf train, or its "
            f"{LOG_FILE}."
        )
    lines: list[tuple[int, dict[str, float]]] = []
    for step, numbers in _log_lines(log):
        # Where a run went on from an earlier step, that step's line and later ones count no more.
        while lines and lines[-1][0] >= step:
            lines.pop()
        lines.append((step, numbers))
    if not lines:
        raise ValueError(f"{log}: there is no step in it.")
    columns = {
        key: np.array([numbers.get(key, math.nan) for _, numbers in lines]) for key in _NUMBERS
    }
    return TrainingRun(
        name,
        np.array([step for step, _ in lines]),
        {key: column for key, column in columns.items() if not np.isnan(column).all()},
        **_of_record(log.with_name(RECORD_FILE), last=lines[-1][0]),
    )


def _log_lines(log: Path) -> Iterator[tuple[int, dict[str, float]]]:
    with open(log, encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            content = _parsed(line)
            if content is None and not line.endswith("\n"):
                return  # It is still being written, or its writer was killed.
            is_step = isinstance(content, dict) and type(content.get("step")) is int
            if not is_step or "loss" not in content:
                raise ValueError(
                    f'{log}, line {number}: a JSON object with a whole number as "step" and with '
                    f'a "loss" is needed: {line.strip()[:80]!r}'
                )
            numbers = {key: content[key] for key in _NUMBERS if key in content}
            for key, value in numbers.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ValueError(f"{log}, line {number}: {key} is no number: {value!r}")
            yield content["step"], numbers


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _of_record(path: Path, last: int) -> dict[str, Any]:
    """What `training.json` tells of a run up to step `last`; nothing if it is not there."""
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        settings = record.get("settings", {})
        is_told = {"batch_size", "unroll"} <= set(settings)
        # The record may be newer than what was read of the log.
        rows = [row for row in record.get("perplexity", []) if row["step"] <= last]
        keys = [key for key in DIRECTIONS if rows and key in rows[0]] or ["average"]
        return {
            "tokens_per_step": settings["batch_size"] * settings["unroll"] if is_told else None,
            "held_out_steps": np.array([row["step"] for row in rows], int),
            "held_out": {key: np.array([row[key] for row in rows], float) for key in keys if rows},
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path}: this is no record of elmo-tf train.") from None


def smoothed(values: np.ndarray, window: int) -> np.ndarray:
    """Means over `window` values around each, fewer at both ends; NaN takes no part.

    Args:
        values: float (any,).
        window: int >= 1; the next odd number counts.

    Returns:
        float, of the same shape; NaN where there is nothing to take the mean of.
    """
    half = window // 2
    is_number = np.isfinite(values)
    sums = np.cumsum([0.0, *np.where(is_number, values, 0)])
    counts = np.cumsum([0, *is_number])
    index = np.arange(len(values))
    first, end = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    number = counts[end] - counts[first]
    return np.where(number > 0, (sums[end] - sums[first]) / np.maximum(number, 1), np.nan)


def thinned(values: np.ndarray, limit: int) -> np.ndarray:
    """The places of at most `limit` values, among which are the extremes of each stretch.

    Args:
        values: float (any,).
        limit: int >= 2.
    """
    if len(values) <= limit:
        return np.arange(len(values))
    places = set()
    for part in np.array_split(np.arange(len(values)), limit // 2):
        finite = part[np.isfinite(values[part])]
        if len(finite):
            places |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
    return np.array(sorted(places), int)
