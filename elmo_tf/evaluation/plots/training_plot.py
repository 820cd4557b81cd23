"""Plot of losses, held-out perplexities, learning rates and speeds of training runs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_tf.config_checks import check_int
from elmo_tf.evaluation.plots import style
from elmo_tf.evaluation.plots.training_log import DIRECTIONS, TrainingRun, smoothed
from elmo_tf.evaluation.visible_text import shortened, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_RUNS = len(style.LINE_COLOURS)
AXES = {
    "step": "step",
    "tokens": "tokens read (targets of one direction)",
    "time": "hours of training",
}
_DASHED = (0, (4, 2))
_DEFAULT_WINDOW = 0.01  # share of the steps
_MAX_NAME = 40
_WIDTH, _PANEL_HEIGHT, _LEGEND_HEIGHT = 8.0, 2.7, 0.25


def draw_training(
    runs: Sequence[TrainingRun], by: str = "step", window: int | None = None
) -> "Figure":
    """Draws one or several runs, with a panel for each quantity that any of them has logged.

    Training losses are drawn faint for each step, and strong for moving averages.

    Args:
        runs: 1 to 7 runs.
        by: "step", "tokens" or "time", see `TrainingRun.places`.
        window: int >= 1. Steps of the moving average, rounded up to an odd number; None for a
            hundredth of the longest log.

    Returns:
        A figure, for `save_figure`.

    Raises:
        ValueError: there are too few or too many runs, or one has not logged tokens or time.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"A picture holds 1 to {MAX_RUNS} runs. Received: {len(runs)}")
    if window is None:
        window = max(1, round(_DEFAULT_WINDOW * max(len(run.steps) for run in runs)))
    check_int(window, "window", ge=1)
    window |= 1
    panels = _panels(runs, window)
    # The names of the runs, and the directions.
    legend_rows = len(runs) + 1 if len(runs) > 1 else 1
    height = _PANEL_HEIGHT * len(panels) + _LEGEND_HEIGHT * legend_rows
    figure = style.new_figure(_WIDTH, height)
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, label, draw) in zip(all_axes, panels, strict=True):
        axes.set_title(title, fontsize=style.TITLE_SIZE, loc="left")
        axes.set_ylabel(label, fontsize=style.LABEL_SIZE)
        style.add_grid(axes)
        for number, run in enumerate(runs):
            draw(axes, run, by, _line_style(runs, number))
    all_axes[-1].set_xlabel(AXES[by], fontsize=style.LABEL_SIZE)
    all_axes[-1].xaxis.set_major_formatter(_number_formatter())
    all_axes[-1].locator_params(axis="x", integer=by != "time")
    _add_legend(figure, runs)
    return figure


def _panels(runs: Sequence[TrainingRun], window: int) -> list[tuple[str, str, Callable]]:
    """Returns for each panel its title, the label of its axis, and a function that draws a run."""

    def losses(axes: "Axes", run: TrainingRun, by: str, line_style: Callable) -> None:
        for name in _losses(run):
            means = smoothed(run.values[name], window)
            _draw_steps(axes, run, by, line_style(name), means, run.values[name])

    def speeds(axes: "Axes", run: TrainingRun, by: str, line_style: Callable) -> None:
        speed = run.tokens_per_second()
        if speed is not None:
            means = run.tokens_per_second(window)
            _draw_steps(axes, run, by, line_style("speed"), means, speed)
        axes.set_ylim(bottom=0, auto=True)  # the upper limit stays automatic
        axes.yaxis.set_major_formatter(_number_formatter())

    means = "" if window == 1 else f": each step, and means of {window:,} steps"
    panels = [(f"Training loss{means}", "loss (nats per token)", losses)]
    if any(len(run.held_out_steps) for run in runs):
        panels.append(("Held-out perplexity", "perplexity per token\n(log scale)", _perplexities))
    if any("learning_rate" in run.values for run in runs):
        panels.append(("Learning rate", "learning rate", _learning_rates))
    if any(run.tokens_per_second() is not None for run in runs):
        panels.append((f"Speed{means}", "tokens per second", speeds))
    return panels


def _losses(run: TrainingRun) -> list[str]:
    names = [name for name in DIRECTIONS if name in run.values]
    return names or (["loss"] if "loss" in run.values else [])


def _draw_steps(
    axes: "Axes",
    run: TrainingRun,
    by: str,
    line_style: dict[str, Any],
    means: np.ndarray,
    values: np.ndarray,
) -> None:
    """Draws the means, and faintly the values of each step if they differ."""
    places = run.places(run.steps, by)
    if not np.array_equal(means, values, equal_nan=True):
        axes.plot(places, values, color=line_style["color"], alpha=0.2, linewidth=0.6)
    axes.plot(places, means, markevery=max(1, len(means) // 8), **line_style)


def _perplexities(axes: "Axes", run: TrainingRun, by: str, line_style: Callable) -> None:
    for name, perplexities in run.held_out.items():
        axes.plot(run.places(run.held_out_steps, by), perplexities, **line_style(name))
    axes.set_yscale("log")
    values = np.concatenate([[np.nan], *(line.get_ydata() for line in axes.lines)])
    values = values[np.isfinite(values) & (values > 0)]
    if len(values):
        _label_logarithms(axes, values.min() / 1.3, values.max() * 1.3)


def _label_logarithms(axes: "Axes", low: float, high: float) -> None:
    """Labels 1, 2 and 5 times the powers of 10, and more numbers on a short axis."""
    ticker = style.matplotlib_module("ticker")
    axes.set_ylim(low, high)
    digits = (1, 2, 5) if high / low > 8 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=digits, numticks=20))
    axes.yaxis.set_major_formatter(_number_formatter())
    axes.yaxis.set_minor_locator(ticker.NullLocator())


def _learning_rates(axes: "Axes", run: TrainingRun, by: str, line_style: Callable) -> None:
    if "learning_rate" in run.values:
        rates = run.values["learning_rate"]
        _draw_steps(axes, run, by, line_style("learning_rate"), rates, rates)
    axes.set_ylim(bottom=0, auto=True)  # the upper limit stays automatic


def _line_style(runs: Sequence[TrainingRun], number: int) -> Callable[[str], dict[str, Any]]:
    """Returns a function from the name of a quantity to the style of a run's line.

    Backward lines are dashed. Colours and markers distinguish runs, or the directions of one run.
    """

    def line_style(name: str) -> dict[str, Any]:
        is_backward = name == "backward"
        place = number if len(runs) > 1 else int(is_backward)
        return {
            "color": style.LINE_COLOURS[place],
            "marker": style.LINE_MARKERS[place],
            "markersize": 4,
            "linewidth": 1.4,
            "linestyle": _DASHED if is_backward else "-",
            "label": f"{_name(runs[number])}, {name}",
        }

    return line_style


def _name(run: TrainingRun) -> str:
    name = shortened(visible(run.name), _MAX_NAME)
    # matplotlib omits names that begin with an underscore from the legend.
    return f" {name}" if name.startswith("_") else name


def _number_formatter() -> Any:
    ticker = style.matplotlib_module("ticker")
    return ticker.FuncFormatter(
        lambda value, _: f"{value:,.6g}" if value < 1e6 else f"{value / 1e6:,.6g} M"
    )


def _add_legend(figure: "Figure", runs: Sequence[TrainingRun]) -> None:
    """Adds the directions of one run, or the names of several runs and the dashes' meaning."""
    line = style.matplotlib_module("lines").Line2D
    shown = [name for name in DIRECTIONS if any(name in _losses(run) for run in runs)]
    if len(runs) == 1:
        line_style = _line_style(runs, 0)
        handles = [line([], [], **line_style(name)) for name in shown or ["loss"]]
    else:
        handles = [
            line([], [], **{**_line_style(runs, number)("loss"), "label": _name(run)})
            for number, run in enumerate(runs)
        ]
        handles += [
            line([], [], color="#606060", linestyle=linestyle, label=name)
            for name, linestyle in zip(DIRECTIONS, ("-", _DASHED), strict=True)
            if name in shown
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
