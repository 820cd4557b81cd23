"""Plot of losses, held-out perplexities, learning rates and speeds of training runs."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

from elmo_tf.evaluation.plots import style
from elmo_tf.evaluation.visible_text import shortened, visible
from elmo_tf.extras import require_extra

pd = require_extra("pandas", "plot", "A picture of training")

# The names that the trainer uses, which this package does not import.
LOG_FILE, RECORD_FILE = "log.jsonl", "training.json"
_LOGGED = ["loss", "forward", "backward", "learning_rate", "seconds"]
AXES = {"step": "step", "tokens": "tokens read (targets of one direction)", "time": "hours"}
# The columns of each panel.
_PANELS = {
    "Training loss (nats per token)": ["forward", "backward"],
    "Held-out perplexity per token": ["of forward", "of backward"],
    "Learning rate": ["learning_rate"],
    "Speed (tokens per second)": ["speed"],
}


def read_log(path: str | os.PathLike) -> pd.DataFrame:
    """Reads the log and the record of a run, which may still be running.

    Args:
        path: a work directory, or its log.

    Returns:
        A row per step, with the logged numbers; the held-out perplexities "of forward", "of
        backward" and "of average"; "tokens" and "time" (hours) so far; and "speed" (tokens per
        second). NaN where a number is unknown.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: the log or the record is damaged, or the log has no step.
    """
    log = Path(path) / LOG_FILE if os.path.isdir(path) else Path(path)
    if not log.is_file():
        raise FileNotFoundError(f"There is no training log {log}. Name a work directory of train.")
    lines = log.read_text("utf-8").rpartition("\n")[0]  # the last line may be incomplete
    record = log.with_name(RECORD_FILE)
    try:
        run = pd.read_json(io.StringIO(lines), lines=True).set_index("step").astype(float)
        run = run.reindex(columns=_LOGGED)
        content = json.loads(record.read_text("utf-8")) if record.is_file() else {}
        settings = content.get("settings", {})
        tokens = settings.get("batch_size", float("nan")) * settings.get("unroll", 1)
        names = ["step", "forward", "backward", "average"]
        held_out = pd.DataFrame(content.get("perplexity", []), columns=names).set_index("step")
        run = run.join(held_out.astype(float).add_prefix("of "), how="outer")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{log} or {RECORD_FILE} is not of elmo-tf train: {error!r}") from None
    hours = run["seconds"].mask(run["loss"].isna(), 0).cumsum(skipna=False) / 3600
    return run.assign(tokens=run.index * tokens, time=hours, speed=tokens / run["seconds"])


@style.styled
def draw_training(
    runs: Mapping[str, pd.DataFrame], by: str = "step", window: int | None = None
) -> style.Figure:
    """Draws one or several runs, with a panel for each quantity. Backward lines are dashed.

    Args:
        runs: 1 to 7 results of `read_log`, by name.
        by: a key of `AXES`.
        window: int >= 1. Steps of the moving averages of losses and speeds; None for a hundredth
            of the longest log.

    Raises:
        ValueError: there are too few or too many runs, or one has not logged tokens or time.
    """
    if not 1 <= len(runs) <= len(style.LINES):
        raise ValueError(f"A picture holds 1 to {len(style.LINES)} runs. Received: {len(runs)}")
    window = window or max(1, max(map(len, runs.values())) // 100)
    runs = {name: run.reset_index().dropna(axis=1, how="all") for name, run in runs.items()}
    for name, run in runs.items():
        if by not in run or run[by].isna().any():
            raise ValueError(f"{name}: the log or {RECORD_FILE} lacks the {by}. Plot by step.")
    known = set().union(*(run.columns for run in runs.values()))
    panels = {title: columns for title, columns in _PANELS.items() if known & set(columns)}
    figure = style.Figure(figsize=(8, 2.7 * len(panels) + 0.25 * (len(runs) + 1)))
    axes_of_panels = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, columns) in zip(axes_of_panels, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        axes.set_yscale("log" if title.startswith("Held-out") else "linear")
        axes.grid()
        for row, (name, run) in enumerate(runs.items()):
            # A space, because matplotlib hides names that begin with an underscore.
            prefix = f" {shortened(visible(name), 40)}, " if len(runs) > 1 else ""
            for index, column in enumerate(run.columns.intersection(columns)):
                values = run.set_index(by)[column].dropna()
                if column in ("forward", "backward", "speed"):
                    values = values.rolling(window, 1, center=True).mean()
                look = style.LINES[row if prefix else index]
                dashes = "--" if "backward" in column else "-"
                marked = max(1, len(values) // 8)
                axes.plot(values, dashes, label=prefix + column, markevery=marked, **look)
    axes_of_panels[-1].set_xlabel(AXES[by])
    handles, labels = axes_of_panels[0].get_legend_handles_labels()
    font = {"size": 8, "family": style.families(labels)}
    place = {"loc": "outside upper center", "ncols": 2 if max(map(len, labels)) > 18 else 4}
    legend = figure.legend(handles, labels, prop=font, handlelength=3.5, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure
