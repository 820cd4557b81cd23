"""Plots of training runs, token similarities, layer mixes and sample efficiency.

Each `draw_` function returns a figure for `save_figure`. Figures are made without `pyplot`, so they
need no display and leave no global state. Colors are also distinguishable in gray: lines by marker
or dash, heat maps by lightness.
"""

import io
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.vectors import check_all_layers, unit_vectors
from elmo_tf.evaluation.neighbors import visible
from elmo_tf.files import atomic_file
from elmo_tf.lazy import require_extra
from elmo_tf.models.elmo import Elmo

matplotlib, pd, fonts, _figures = (
    require_extra(module, "plot", "A picture")
    for module in ("matplotlib", "pandas", "matplotlib.font_manager", "matplotlib.figure")
)
Figure = _figures.Figure

# Okabe and Ito's palette, from dark to light.
_COLORS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_LINES = [{"color": color, "marker": mark} for color, mark in zip(_COLORS, "os^DvPX", strict=True)]
_STYLE = {
    # Further fonts are searched for the characters that the first one lacks.
    "font.family": [
        *matplotlib.rcParams["font.family"],
        *sorted(name for name in fonts.get_font_names() if re.search("CJK|Nanum|Gothic", name)),
    ],
    "figure.constrained_layout.use": True,  # the parts do not overlap
    "font.size": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "grid.color": "#e0e0e0",
    # Text stays text in SVG, and the ids in it are reproducible.
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo_tf",
    "pdf.fonttype": 42,
}
# The suffixes of pictures, with metadata that removes the date.
_SUFFIXES = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

# The names that the trainer uses, which this package does not import.
LOG_FILE, RECORD_FILE = "log.jsonl", "training.json"
AXES = {"step": "step", "tokens": "tokens read (targets of one direction)", "time": "hours"}
_LOGGED = ["loss", "forward", "backward", "learning_rate", "seconds"]
# The columns of each panel; the loss is drawn if a run lacks its directions.
_PANELS = {
    "Training loss (nats per token)": ["forward", "backward", "loss"],
    "Held-out perplexity per token": ["of forward", "of backward"],
    "Learning rate": ["learning_rate"],
    "Speed (tokens per second)": ["speed"],
}

_MAX_TOKENS, _MAX_LABEL = 60, 16

_styled = matplotlib.rc_context(_STYLE)


@_styled
def save_figure(figure: Figure, path: str | os.PathLike, overwrite: bool = False) -> None:
    """Writes a figure in the format of the file name's suffix. Equal figures give equal bytes.

    Raises a `ValueError` if the suffix is not supported, and a `FileExistsError` if the file exists
    and `overwrite` is false.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"A picture's name must end in one of {', '.join(_SUFFIXES)}. "
            f"Received: {os.fspath(path)}"
        )
    with atomic_file(path, overwrite) as part:
        figure.savefig(part, format=suffix[1:], dpi=150, metadata=_SUFFIXES[suffix])


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
    if not lines:
        raise ValueError(f"{log} has no complete step yet.")
    record = log.with_name(RECORD_FILE)
    try:
        run = pd.read_json(io.StringIO(lines), lines=True).set_index("step").astype(float)
        run = run.reindex(columns=_LOGGED)
        content = json.loads(record.read_text("utf-8")) if record.is_file() else {}
        settings = content.get("settings", {})
        tokens = settings.get("batch_size", math.nan) * settings.get("unroll", 1)
        names = ["step", "forward", "backward", "average"]
        held_out = pd.DataFrame(content.get("perplexity", []), columns=names).set_index("step")
        run = run.join(held_out.astype(float).add_prefix("of "), how="outer")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{log} or {RECORD_FILE} is not of elmo-tf train: {error!r}") from None
    hours = run["seconds"].mask(run["loss"].isna(), 0).cumsum(skipna=False) / 3600
    return run.assign(tokens=run.index * tokens, time=hours, speed=tokens / run["seconds"])


@_styled
def draw_training(runs: Mapping[str, pd.DataFrame], by: str = "step") -> Figure:
    """Draws one or several runs, with a panel for each quantity. Backward lines are dashed.

    Losses and speeds are moving averages over a hundredth of the longest log.

    Args:
        runs: 1 to 7 results of `read_log`, by name.
        by: a key of `AXES`.

    Raises:
        ValueError: there are too few or too many runs, or one has not logged tokens or time.
    """
    _check_count(len(runs), len(_LINES), "runs")
    window = max(1, max(map(len, runs.values())) // 100)
    runs = {name: run.reset_index().dropna(axis=1, how="all") for name, run in runs.items()}
    for name, run in runs.items():
        if by not in run or run[by].isna().any():
            raise ValueError(f"{name}: the log or {RECORD_FILE} lacks the {by}. Plot by step.")
    known = set().union(*(run.columns for run in runs.values()))
    panels = {title: columns for title, columns in _PANELS.items() if known & set(columns)}
    figure = Figure(figsize=(8, 2.7 * len(panels) + 0.25 * (len(runs) + 1)))
    axes_of_panels = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, columns) in zip(axes_of_panels, panels.items(), strict=True):
        axes.set_title(title, loc="left")
        axes.set_yscale("log" if title.startswith("Held-out") else "linear")
        axes.grid()
        for row, (name, run) in enumerate(runs.items()):
            # A space, because matplotlib hides names that begin with an underscore.
            prefix = f" {_shortened(name, 40)}, " if len(runs) > 1 else ""
            shown = run.columns.intersection(columns)
            for index, column in enumerate([name for name in shown if name != "loss"] or shown):
                values = run.set_index(by)[column].dropna()
                if column in ("forward", "backward", "loss", "speed"):
                    values = values.rolling(window, 1, center=True).mean()
                look = _LINES[row if prefix else index]
                dashes = "--" if "backward" in column else "-"
                marked = max(1, len(values) // 8)
                axes.plot(values, dashes, label=prefix + column, markevery=marked, **look)
    axes_of_panels[-1].set_xlabel(AXES[by])
    handles, labels = axes_of_panels[0].get_legend_handles_labels()
    place = {"loc": "outside upper center", "ncols": 2 if max(map(len, labels)) > 18 else 4}
    legend = figure.legend(handles, labels, handlelength=3.5, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def checked_sentences(sentences: Sequence[str]) -> list[list[str]]:
    """Splits at least one sentence, with at most 60 tokens in total, like `str.split()`.

    Raises:
        ValueError: a sentence has no tokens, or there are too many tokens.
    """
    split = [sentence.split() for sentence in sentences]
    if [] in split:
        raise ValueError(f"Sentence {split.index([]) + 1} has no tokens.")
    _check_count(sum(map(len, split)), _MAX_TOKENS, "tokens in total")
    return split


def token_similarities(embedder: Embedder, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Computes the cosine of every pair of tokens: float32 (layer, token, token), -1 to 1.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        sentences: lists of tokens, see `checked_sentences`.
    """
    check_all_layers(embedder)
    # (layer, token, feature)
    vectors = unit_vectors(np.concatenate(list(embedder.embed(sentences)), axis=1))
    return np.clip(vectors @ vectors.transpose(0, 2, 1), -1, 1)


@_styled
def draw_similarities(sentences: Sequence[Sequence[str]], cosines: np.ndarray) -> Figure:
    """Draws a heat map of each layer, on one color scale; lines separate the sentences.

    `cosines`: see `token_similarities`.
    """
    num_layers, num_tokens, _ = cosines.shape
    labels = [_shortened(token, _MAX_LABEL) for tokens in sentences for token in tokens]
    # In inches: a panel, its labels and its margin. The panels of a row have up to 13 inches.
    side = max(2.0, 0.17 * num_tokens) + 0.35 + 0.1 * max(map(len, labels))
    columns = min(num_layers, max(1, int(13 // side)))
    rows = math.ceil(num_layers / columns)
    size = columns * side + 1, rows * (side + 0.35)  # with a color bar
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[num_layers:]:
        axes.remove()
    lowest = min(0.0, math.floor(10 * cosines.min()) / 10)
    for layer, (axes, of_layer) in enumerate(zip(panels, cosines, strict=False)):
        image = axes.imshow(of_layer, cmap="cividis", vmin=lowest, vmax=1)
        note = {0: " (without context)", num_layers - 1: " (top)"}.get(layer, "")
        axes.set_title(f"Layer {layer}{note}")
        axes.set_xticks(range(num_tokens), labels, rotation=90, parse_math=False)
        axes.set_yticks(range(num_tokens), labels, parse_math=False)
        for end in np.cumsum([len(tokens) for tokens in sentences])[:-1]:
            axes.axhline(end - 0.5, color="white")
            axes.axvline(end - 0.5, color="white")
    figure.colorbar(image, ax=panels[:num_layers], label="cosine similarity", aspect=30)
    return figure


class Mix(NamedTuple):
    """A mix of the layers of a biLM."""

    name: str  # of the model, and of the mix's place in it
    shares: np.ndarray  # (layer,), which sum to 1; layer 0 first
    scale: float


def mixes_of(name: str, elmo: Elmo) -> list[Mix]:
    """Returns the mixes of an `Elmo` layer; `ValueError` if it only uses the top layer.

    The name of a single mix is that of the model, `name`.
    """
    if elmo.top_only:
        raise ValueError(f"{name} only uses the top layer: there is no mix.")
    names = [name] if len(elmo.mixes) == 1 else [f"{name}, input", f"{name}, output"]
    return [Mix(label, *mix.mixing_weights()) for label, mix in zip(names, elmo.mixes, strict=True)]


@_styled
def draw_mixes(mixes: Sequence[Mix]) -> Figure:
    """Draws a row per mix, at least one, and a column per layer, with shares in percent.

    All mixes have the same number of layers.
    """
    labels = [mix.name for mix in mixes]
    shares = np.stack([mix.shares for mix in mixes])  # (mix, layer)
    num_mixes, num_layers = shares.shape
    # In inches: letters, columns, and margins with the color bar and the scales.
    width = 0.075 * max(map(len, labels)) + 0.72 * num_layers + 2.22
    figure = Figure(figsize=(width, 0.34 * num_mixes + 1.2))
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for (row, layer), share in np.ndenumerate(shares):
        color = "black" if share > 0.6 else "white"
        axes.text(layer, row, f"{100 * share:.0f}", ha="center", va="center", color=color)
    axes.set_xticks(range(num_layers), [f"layer {layer}" for layer in range(num_layers)])
    axes.set_yticks(range(num_mixes), labels, parse_math=False)
    scales = axes.secondary_yaxis("right")
    scales.set_yticks(range(num_mixes), [f"{mix.scale:.2f}" for mix in mixes])
    scales.set_ylabel("scale")
    figure.colorbar(image, ax=axes, label="share of the mix")
    return figure


def read_sweep(path: str | os.PathLike) -> dict[str, Any]:
    """Reads the result of `elmo-tf task sweep` as JSON; `ValueError` for other contents."""
    try:
        sweep = json.loads(Path(path).read_text("utf-8"))
        draw_sample_efficiency(sweep)
    except (ValueError, KeyError, TypeError):
        message = f"{os.fspath(path)} is not a result of elmo-tf task sweep as JSON."
        raise ValueError(message) from None
    return sweep


@_styled
def draw_sample_efficiency(sweep: Mapping[str, Any]) -> Figure:
    """Draws scores against shares of the training data; bars are standard deviations.

    Args:
        sweep: the result of `elmo_tf.trainers.tasks.sweep.sweep_task`.
    """
    rows = pd.json_normalize(sweep["summary"]).set_index("share").sort_index().astype(float) * 100
    figure = Figure(figsize=(5.5, 3.6))
    axes = figure.subplots()
    for (name, dash), look in zip((("with", "-"), ("without", "--")), _LINES, strict=False):
        scores, deviations = rows[f"{name}.mean"], rows[f"{name}.deviation"].fillna(0)
        look = {**look, "linestyle": dash, "label": f"{name} ELMo", "capsize": 3}
        axes.errorbar(100 * rows.index, scores, deviations, **look)
    axes.set(xscale="log", xlabel="share of the training data (%)", ylabel=sweep["metric"] + " (%)")
    axes.set_xticks(100 * rows.index, [f"{100 * share:g}" for share in rows.index])
    axes.minorticks_off()
    axes.grid()
    axes.legend()
    return figure


def _check_count(count: int, most: int, what: str) -> None:
    if not 1 <= count <= most:
        raise ValueError(f"A plot can show 1 to {most} {what}. Received: {count}")


def _shortened(text: str, length: int) -> str:
    """A readable text of at most `length` characters."""
    text = visible(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"
