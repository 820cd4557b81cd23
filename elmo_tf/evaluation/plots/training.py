"""Plot of losses, held-out perplexities, learning rates and speeds of training runs."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.evaluation.plots import style
from elmo_tf.evaluation.visible_text import shortened, visible
from elmo_tf.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# The names that the trainer uses, which this package does not import.
LOG_FILE, RECORD_FILE = "log.jsonl", "training.json"
AXES = {
    "step": "step",
    "tokens": "tokens read (targets of one direction)",
    "time": "hours of training",
}
# Title and axis of each panel, and its columns; the last one stands in for the others.
_PANELS = (
    ("Training loss", "loss (nats per token)", ("forward", "backward", "loss")),
    (
        "Held-out perplexity",
        "perplexity per token (log scale)",
        ("of forward", "of backward", "of average"),
    ),
    ("Learning rate", "learning rate", ("learning_rate",)),
    ("Speed", "tokens per second", ("speed",)),
)


def read_log(path: str | os.PathLike) -> "DataFrame":
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
    pd = require_extra("pandas", "plot", "A picture of training")
    log = Path(path) / LOG_FILE if os.path.isdir(path) else Path(path)
    record = log.with_name(RECORD_FILE)
    if not log.is_file():
        raise FileNotFoundError(f"There is no training log {log}. Name a work directory of train.")
    # The last line of a run that is writing it, or was killed, is incomplete.
    lines = log.read_text("utf-8").rpartition("\n")[0]
    try:
        rows = pd.read_json(io.StringIO(lines), lines=True)
        # A run that resumed from an earlier step has logged the later steps again.
        later = rows["step"][::-1].cummin()[::-1].shift(-1, fill_value=2**62)
        rows = rows[rows["step"] < later].set_index("step").astype(float)
        content = json.loads(record.read_text("utf-8")) if record.is_file() else {}
        names = ["step", "forward", "backward", "average"]
        held_out = pd.DataFrame(content.get("perplexity", []), columns=names).set_index("step")
        held_out = held_out[held_out.index <= rows.index.max()].astype(float).add_prefix("of ")
        settings = content.get("settings", {})
        tokens = settings.get("batch_size", float("nan")) * settings.get("unroll", 1)
        run = rows.join(held_out, how="outer")
        seconds = run["seconds"] if "seconds" in run else run["loss"] * float("nan")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{log} or {RECORD_FILE} is not of elmo-tf train: {error!r}") from None
    hours = seconds.mask(run["loss"].isna(), 0).cumsum(skipna=False) / 3600
    return run.assign(tokens=run.index * tokens, time=hours, speed=tokens / seconds)


@style.styled
def draw_training(
    runs: Mapping[str, "DataFrame"], by: str = "step", window: int | None = None
) -> "Figure":
    """Draws one or several runs, with a panel for each quantity that any of them has logged.

    Values of single steps are faint, moving averages strong, and backward lines dashed.

    Args:
        runs: 1 to 7 results of `read_log`, by name.
        by: "step", "tokens" or "time".
        window: int >= 1. Steps of the moving average, rounded up to an odd number; None for a
            hundredth of the longest log.

    Returns:
        A figure, for `save_figure`.

    Raises:
        ValueError: there are too few or too many runs, or one has not logged tokens or time.
    """
    check_choice(by, "by", AXES)
    if not 1 <= len(runs) <= len(style.LINES):
        raise ValueError(f"A picture holds 1 to 7 runs. Received: {len(runs)}")
    for name, run in runs.items():
        if by != "step" and run[by].isna().any():
            raise ValueError(f"{name}: the log or {RECORD_FILE} lacks the {by}. Plot by step.")
    if window is not None:
        check_int(window, "window", ge=1)
    window = (window or max(1, max(map(len, runs.values())) // 100)) | 1
    drawn = [
        (*panel, columns)
        for *panel, columns in _PANELS
        if any(name in run and run[name].notna().any() for run in runs.values() for name in columns)
    ]
    figure = style.new_figure(8, 2.7 * len(drawn) + 0.25 * (len(runs) + 1))
    panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, label, columns) in zip(panels, drawn, strict=True):
        is_smooth = window > 1 and title in ("Training loss", "Speed")
        note = f": each step, and means of {window:,} steps" if is_smooth else ""
        axes.set_title(title + note, loc="left")
        axes.set_ylabel(label)
        axes.grid()
        for number, (name, run) in enumerate(runs.items()):
            # A space, because matplotlib hides names that begin with an underscore.
            prefix = f" {shortened(visible(name), 40)}, " if len(runs) > 1 else ""
            found = [column for column in columns if column in run and run[column].notna().any()]
            for place, column in enumerate([c for c in found if c != columns[-1]] or found):
                values = run[column].set_axis(run.index if by == "step" else run[by]).dropna()
                means = values.rolling(window, 1, center=True).mean() if is_smooth else values
                look = style.LINES[number if len(runs) > 1 else place]
                if is_smooth:
                    axes.plot(values, color=look["color"], alpha=0.2, linewidth=0.6)
                axes.plot(
                    *(means, "--" if "backward" in column else "-"),
                    label=prefix + column,
                    markevery=max(1, len(means) // 8),
                    **look,
                )
        if title == "Held-out perplexity":
            ticker = style.matplotlib_module("ticker")
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            is_long = high > 8 * low
            axes.yaxis.set_major_locator(
                ticker.LogLocator(subs=(1, 2, 5)) if is_long else ticker.MaxNLocator(6)
            )
            axes.yaxis.set_major_formatter("{x:,.6g}")
            axes.yaxis.set_minor_locator(ticker.NullLocator())
        elif title != "Training loss":
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    panels[-1].set_xlabel(AXES[by])
    style.add_legend(figure, panels[0])
    return figure
