"""TrainingRun ─► a picture of losses, held-out perplexities, learning rates and speeds."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_tf.config_checks import check_int
from elmo_tf.evaluation.plots import style
from elmo_tf.evaluation.plots.training_log import DIRECTIONS, TrainingRun, smoothed, thinned
from elmo_tf.evaluation.visible_text import shortened, visible
from elmo_tf.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_RUNS = len(style.LINE_COLOURS)
AXES = {
    "step": "step",
    "tokens": "tokens read (targets of one direction)",
    "time": "hours of training",
}
_DASHED = (0, (4, 2))
# Means are over this part of the steps, if no window is given.
_SMOOTHED_PART = 0.01
# Points of a line; more could not be told apart.
_MOST_POINTS = 1000
_LONGEST_NAME = 40
_WIDTH, _PANEL_HEIGHT, _LEGEND_HEIGHT = 8.0, 2.7, 0.25


def draw_training(
    runs: Sequence[TrainingRun], by: str = "step", window: int | None = None
) -> "Figure":
    """Draws runs over each other, with a panel for each of the things that any of them tells.

    Losses are those of training, each step's faint, and means over `window` steps strong.

    Args:
        runs: at least 1, at most 7.
        by: "step", "tokens" or "time", see `TrainingRun.places`.
        window: int >= 1. Steps of the means, the next odd number; None for a hundredth of the
            longest log's.

    Returns:
        A figure, for `save_figure`.

    Raises:
        ValueError: too few or too many runs, or one that does not tell of tokens or time.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise ValueError(f"A picture is of 1 to {MOST_RUNS} runs. Received: {len(runs)}")
    if window is None:
        window = max(1, round(_SMOOTHED_PART * max(len(run.steps) for run in runs)))
    check_int(window, "window", least=1)
    window |= 1  # As many to each side.
    panels = _panels(runs, window)
    # The runs' names, and the directions.
    legend_rows = len(runs) + 1 if len(runs) > 1 else 1
    height = _PANEL_HEIGHT * len(panels) + _LEGEND_HEIGHT * legend_rows
    figure = style.new_figure(_WIDTH, height)
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, label, draw) in zip(all_axes, panels, strict=True):
        axes.set_title(title, fontsize=style.TITLE_SIZE, loc="left")
        axes.set_ylabel(label, fontsize=style.LABEL_SIZE)
        axes.tick_params(labelsize=style.TICK_SIZE, which="both")
        axes.grid(color="#e0e0e0", linewidth=0.6)
        for number, run in enumerate(runs):
            draw(axes, run, by, _looks(runs, number))
    all_axes[-1].set_xlabel(AXES[by], fontsize=style.LABEL_SIZE)
    all_axes[-1].xaxis.set_major_formatter(_numbers())
    all_axes[-1].locator_params(axis="x", integer=by != "time")
    _add_legend(figure, runs)
    return figure


def _panels(runs: Sequence[TrainingRun], window: int) -> list[tuple[str, str, Callable]]:
    """Of each panel the title, the label of its axis, and what draws a run in it."""

    def losses(axes: "Axes", run: TrainingRun, by: str, looks: Callable) -> None:
        for name in _losses(run):
            values = run.values[name]
            _draw_steps(axes, run, by, looks(name), smoothed(values, window), values)

    def speeds(axes: "Axes", run: TrainingRun, by: str, looks: Callable) -> None:
        speed = run.tokens_per_second()
        if speed is not None:
            together = run.tokens_per_second(window)
            _draw_steps(axes, run, by, looks("speed"), together, speed)
        _from_zero(axes)
        axes.yaxis.set_major_formatter(_numbers())

    means = "" if window == 1 else f": each step, and means of {window:,} steps"
    panels = [(f"Training loss{means}", "loss (nats per token)", losses)]
    if any(len(run.held_out_steps) for run in runs):
        panels.append(("Held-out perplexity", "perplexity per token\n(log scale)", _perplexities))
    if any("learning_rate" in run.values for run in runs):
        panels.append(("Learning rate", "learning rate", _learning_rates))
    if any(run.tokens_per_second() is not None for run in runs):
        together = "" if window == 1 else f": each step, and {window:,} steps together"
        panels.append((f"Speed{together}", "tokens per second", speeds))
    return panels


def _losses(run: TrainingRun) -> list[str]:
    return [name for name in DIRECTIONS if name in run.values] or [
        name for name in ("loss",) if name in run.values
    ]


def _draw_steps(
    axes: "Axes",
    run: TrainingRun,
    by: str,
    looks: dict[str, Any],
    means: np.ndarray,
    values: np.ndarray,
) -> None:
    """Each step's value, faint, and the means over them, if these differ."""
    places = run.places(run.steps, by)
    if not np.array_equal(means, values, equal_nan=True):
        few = thinned(values, _MOST_POINTS)
        axes.plot(places[few], values[few], color=looks["color"], alpha=0.2, linewidth=0.6)
    few = thinned(means, _MOST_POINTS)
    axes.plot(
        places[few],
        means[few],
        linewidth=1.4,
        markevery=max(1, len(few) // 8),
        **looks,
    )


def _perplexities(axes: "Axes", run: TrainingRun, by: str, looks: Callable) -> None:
    for name, perplexities in run.held_out.items():
        axes.plot(
            run.places(run.held_out_steps, by),
            perplexities,
            linewidth=1.4,
            **looks(name),
        )
    axes.set_yscale("log")
    lines = [line.get_ydata() for line in axes.lines]
    values = np.concatenate([*lines, [np.nan]])
    values = values[np.isfinite(values) & (values > 0)]
    if len(values):
        _label_logarithms(axes, values.min() / 1.3, values.max() * 1.3)


def _label_logarithms(axes: "Axes", low: float, high: float) -> None:
    """Numbers at 1, 2 and 5 of each power of 10, or more closely where the axis is short."""
    ticker = require_extra("matplotlib.ticker", "plot", "A picture")
    axes.set_ylim(low, high)
    digits = (1, 2, 5) if high / low > 8 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=digits, numticks=20))
    axes.yaxis.set_major_formatter(_numbers())
    axes.yaxis.set_minor_locator(ticker.NullLocator())


def _learning_rates(axes: "Axes", run: TrainingRun, by: str, looks: Callable) -> None:
    if "learning_rate" in run.values:
        rates = run.values["learning_rate"]
        few = thinned(rates, _MOST_POINTS)
        axes.plot(
            run.places(run.steps, by)[few],
            rates[few],
            linewidth=1.4,
            markevery=max(1, len(few) // 8),
            **looks("learning_rate"),
        )
    _from_zero(axes)


def _from_zero(axes: "Axes") -> None:
    """The axis begins at 0. Lines that come later still move its upper end."""
    axes.set_ylim(bottom=0, auto=True)


def _looks(runs: Sequence[TrainingRun], number: int) -> Callable[[str], dict[str, Any]]:
    """What the lines of a run look like, by what they show.

    Backward lines are dashed. Colours and markers are the runs', or of one alone the directions'.
    """

    def looks(name: str) -> dict[str, Any]:
        is_backward = name == "backward"
        place = number if len(runs) > 1 else int(is_backward)
        return {
            "color": style.LINE_COLOURS[place],
            "marker": style.LINE_MARKERS[place],
            "markersize": 4,
            "linestyle": _DASHED if is_backward else "-",
            "label": f"{_name(runs[number])}, {name}",
        }

    return looks


def _name(run: TrainingRun) -> str:
    name = shortened(visible(run.name), _LONGEST_NAME)
    # matplotlib leaves lines out of a legend whose names begin with an underline.
    return f" {name}" if name.startswith("_") else name


def _numbers() -> Any:
    ticker = require_extra("matplotlib.ticker", "plot", "A picture")
    return ticker.FuncFormatter(lambda value, _: f"{value:,.6g}" if value < 1e6 else _many(value))


def _many(value: float) -> str:
    return f"{value / 1e6:,.6g} M"


def _add_legend(figure: "Figure", runs: Sequence[TrainingRun]) -> None:
    """Above all panels: the directions of a run, or the names of several and what dashes are."""
    line = require_extra("matplotlib.lines", "plot", "A picture").Line2D
    shown = [name for name in DIRECTIONS if any(name in _losses(run) for run in runs)]
    if len(runs) == 1:
        looks = _looks(runs, 0)
        handles = [line([], [], **looks(name)) for name in shown or ["loss"]]
    else:
        handles = [
            line([], [], **{**_looks(runs, number)("loss"), "label": _name(run)})
            for number, run in enumerate(runs)
        ]
        handles += [
            line(
                [],
                [],
                color="#606060",
                linestyle=_DASHED if name == "backward" else "-",
                label=name,
            )
            for name in shown
        ]
    labels = [handle.get_label() for handle in handles]
    legend = figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=2 if max(map(len, labels)) > 18 else 4,
        prop={"size": style.TICK_SIZE, "family": style.families(labels)},
        frameon=False,
        handlelength=3.5,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
