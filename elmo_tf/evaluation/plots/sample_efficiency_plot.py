"""Plot of scores by share of the training data, with and without ELMo."""

import json
import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_tf.evaluation.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 5.5, 3.6
_LINES = {"with": "with ELMo", "without": "without ELMo"}


def read_sweep(path: str | os.PathLike) -> dict[str, Any]:
    """Reads the result of `elmo-tf task sweep --json FILE`.

    Raises:
        ValueError: the file has other contents.
        OSError: it cannot be read.
    """
    try:
        sweep = json.loads(Path(path).read_text("utf-8"))
        spreads = [row[name] for row in sweep["summary"] for name in _LINES]
        numbers = [
            *(row["share"] for row in sweep["summary"]),
            *(spread["mean"] for spread in spreads),
            *(spread["deviation"] or 0 for spread in spreads),
        ]
        is_valid = bool(numbers) and all(isinstance(number, Real) for number in numbers)
        is_valid = is_valid and isinstance(sweep["metric"], str)
    except (ValueError, KeyError, TypeError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"{os.fspath(path)} is not a result of elmo-tf task sweep --json FILE.")
    return sweep


def draw_sample_efficiency(sweep: Mapping[str, Any]) -> "Figure":
    """Draws scores against shares of the training data; bars are standard deviations.

    Args:
        sweep: the result of `elmo_tf.trainers.tasks.sweeping.sweep_task`.

    Returns:
        A figure, for `save_figure`.
    """
    rows = sorted(sweep["summary"], key=lambda row: row["share"])
    shares = [100 * row["share"] for row in rows]
    figure = style.new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    for number, (name, label) in enumerate(_LINES.items()):
        axes.errorbar(
            shares,
            [100 * row[name]["mean"] for row in rows],
            yerr=[100 * (row[name]["deviation"] or 0) for row in rows],
            label=label,
            color=style.LINE_COLOURS[number + 1],
            marker=style.LINE_MARKERS[number],
            linestyle="-" if number == 0 else "--",
            capsize=3,
        )
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    axes.set_xlabel("share of the training data (%)", fontsize=style.LABEL_SIZE)
    axes.set_ylabel(f"{sweep['metric']} (%)", fontsize=style.LABEL_SIZE)
    style.add_grid(axes)
    axes.legend(fontsize=style.LABEL_SIZE)
    return figure
