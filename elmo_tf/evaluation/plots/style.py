"""Common style of all plots (sizes, colors, fonts), and saving as PNG, SVG or PDF.

Figures are made without `pyplot`, so they need no display and leave no global state. Colors are
also distinguishable in gray: lines by marker or dash, heat maps by lightness.
"""

import functools
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, refuse_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
HEAT_COLORS = "cividis"
# Okabe and Ito's palette, from dark to light.
_COLORS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
LINES = [{"color": color, "marker": mark} for color, mark in zip(_COLORS, "os^DvPX", strict=True)]

# Fonts of matplotlib: one with many characters, and one that draws any character as a box.
_FONT, _BOXES = "DejaVu Sans", "Last Resort"
_STYLE = {
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "grid.color": "#e0e0e0",
}
# Text stays text in SVG, and the ids in it are reproducible.
_SAVE_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "elmo_tf", "pdf.fonttype": 42}
_WITHOUT_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def styled(draw: Callable[..., "Figure"]) -> Callable[..., "Figure"]:
    """Decorator of a function that draws a figure: sets the sizes of texts and lines."""

    @functools.wraps(draw)
    def wrapped(*arguments: Any, **settings: Any) -> "Figure":
        with require_extra("matplotlib", "plot", "A picture").rc_context(_STYLE):
            return draw(*arguments, **settings)

    return wrapped


def new_figure(width: float, height: float, layout: str = "constrained") -> "Figure":
    """Makes an empty figure of a size in inches, whose parts will not overlap."""
    return matplotlib_module("figure").Figure(figsize=(width, height), layout=layout)


def add_legend(figure: "Figure", axes: "Axes") -> None:
    """Adds the labels of the lines of `axes` above the figure, without interpreting `$`."""
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=2 if max(map(len, labels)) > 18 else 4,
        prop={"size": 8, "family": families(labels)},
        handlelength=3.5,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def check_picture(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that `save_figure` can write a file.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: the file name has no supported suffix.
        FileExistsError: the file exists and `overwrite` is false.
    """
    require_extra("matplotlib", "plot", "A picture")
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"A picture's name must end in one of {', '.join(SUFFIXES)}. "
            f"Received: {os.fspath(path)}"
        )
    refuse_file(path, overwrite)


def save_figure(
    figure: "Figure", path: str | os.PathLike, overwrite: bool = False, dpi: int = 150
) -> None:
    """Writes a figure in the format of the file name's suffix. Equal figures give equal bytes.

    `dpi`: dots per inch of a PNG. Raises: see `check_picture`.
    """
    check_picture(path, overwrite)
    suffix = Path(path).suffix.lower()
    matplotlib = require_extra("matplotlib", "plot", "A picture")
    with (
        atomic_file(path, overwrite) as part,
        matplotlib.rc_context(_SAVE_SETTINGS),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # `families` warns once
        figure.savefig(part, format=suffix[1:], dpi=dpi, metadata=_WITHOUT_DATE[suffix])


def families(texts: Iterable[str]) -> list[str]:
    """Finds font families that together have the characters of some texts.

    matplotlib's own font comes first, then installed fonts. Characters that no font has are drawn
    as boxes (in SVG the reader's fonts are used) and reported by a warning.
    """
    fonts = matplotlib_module("font_manager")
    found, missing = [], set("".join(texts))
    plainest_first = sorted(
        (entry for entry in fonts.fontManager.ttflist if not entry.name.startswith(_BOXES)),
        key=lambda e: (e.name != _FONT, e.style != "normal", abs(int(e.weight) - 400), e.fname),
    )
    for entry in plainest_first:
        if not missing:
            break
        try:
            font = matplotlib_module("ft2font").FT2Font(entry.fname)
        except (OSError, RuntimeError):
            continue  # matplotlib's list of fonts may be outdated
        left = {character for character in missing if not font.get_char_index(ord(character))}
        if left != missing:
            found.append(entry.name)
        missing = left
    if missing:
        logging.warning("No installed font has %s: drawn as boxes.", " ".join(sorted(missing)[:20]))
    return list(dict.fromkeys([_FONT, *found]))


def matplotlib_module(module: str) -> Any:
    """Imports a module of matplotlib, which is optional."""
    return require_extra(f"matplotlib.{module}", "plot", "A picture")
