"""Scores by share of the training data, with and without ELMo ─► a picture of both."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elmo_tf.evaluation.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 5.5, 3.6
_LINES = (("with", "with ELMo"), ("without", "without ELMo"))


def read_sweep(path: str | os.PathLike) -> dict[str, Any]:
    """Reads what `elmo-tf task sweep --json` wrote.

    Raises:
        ValueError: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            sweep = json.load(file)
        if isinstance(sweep, dict) and _is_sweep(sweep):
            return sweep
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is no sweep: {error}") from None
    raise ValueError(f"{os.fspath(path)} is no sweep, which elmo-tf task sweep --json FILE writes.")


def _is_sweep(found: Mapping[str, Any]) -> bool:
    rows = found.get("summary")
    return (
        isinstance(found.get("metric"), str)
        and isinstance(rows, list)
        and bool(rows)
        and all(isinstance(row, dict) and _is_number(row.get("share")) for row in rows)
        and all(_is_spread(row.get(name)) for row in rows for name, _ in _LINES)
    )


def _is_spread(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and _is_number(found.get("mean"))
        and (found.get("deviation") is None or _is_number(found["deviation"]))
    )


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def draw_sample_efficiency(sweep: Mapping[str, Any]) -> "Figure":
    """Draws the score against the share of the training data; bars are a standard deviation.

    Args:
        sweep: what `elmo_tf.trainers.tasks.sweeping.sweep_task` gives.

    Returns:
        A figure, for `save_figure`.
    """
    rows = sorted(sweep["summary"], key=lambda row: row["share"])
    shares = [100 * row["share"] for row in rows]
    figure = style.new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    for number, (name, label) in enumerate(_LINES):
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
    axes.tick_params(labelsize=style.TICK_SIZE)
    axes.grid(color="#e0e0e0", linewidth=0.6)
    axes.legend(fontsize=style.LABEL_SIZE)
    return figure
