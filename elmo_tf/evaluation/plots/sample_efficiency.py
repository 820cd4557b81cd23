"""Plot of scores by share of the training data, with and without ELMo."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo_tf.evaluation.plots import style
from elmo_tf.extras import require_extra

_DASHES = {"with": "-", "without": "--"}


def read_sweep(path: str | os.PathLike) -> dict[str, Any]:
    """Reads the result of `elmo-tf task sweep --json FILE`; `ValueError` for other contents."""
    try:
        sweep = json.loads(Path(path).read_text("utf-8"))
        draw_sample_efficiency(sweep)
    except (ValueError, KeyError, TypeError):
        message = f"{os.fspath(path)} is not a result of elmo-tf task sweep --json FILE."
        raise ValueError(message) from None
    return sweep


@style.styled
def draw_sample_efficiency(sweep: Mapping[str, Any]) -> style.Figure:
    """Draws scores against shares of the training data; bars are standard deviations.

    Args:
        sweep: the result of `elmo_tf.trainers.tasks.sweep.sweep_task`.

    Returns:
        A figure, for `save_figure`.
    """
    pd = require_extra("pandas", "plot", "A picture of a sweep")
    rows = pd.json_normalize(sweep["summary"]).set_index("share").sort_index().astype(float) * 100
    figure = style.Figure(figsize=(5.5, 3.6))
    axes = figure.subplots()
    for (name, dash), look in zip(_DASHES.items(), style.LINES, strict=False):
        scores, deviations = rows[f"{name}.mean"], rows[f"{name}.deviation"].fillna(0)
        look = {**look, "linestyle": dash, "label": f"{name} ELMo", "capsize": 3}
        axes.errorbar(100 * rows.index, scores, deviations, **look)
    axes.set_xscale("log")
    axes.set_xticks(100 * rows.index, [f"{100 * share:g}" for share in rows.index])
    axes.minorticks_off()
    axes.set_xlabel("share of the training data (%)")
    axes.set_ylabel(sweep["metric"] + " (%)")
    axes.grid()
    axes.legend()
    return figure
