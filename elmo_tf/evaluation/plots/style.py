"""Common style of all plots (sizes, colours, fonts), and saving as PNG, SVG or PDF.

Figures are made without `pyplot`, so they need no display and leave no global state. Colours are
also distinguishable in grey: lines by marker or dash, heat maps by lightness.
"""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, refuse_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 150
TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 10, 9, 8
HEAT_COLOURS = "cividis"
# Okabe and Ito's palette, from dark to light.
LINE_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
LINE_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Fonts of matplotlib: one with many characters, and one that draws any character as a box.
_FONT, _BOXES = "DejaVu Sans", "Last Resort"
# Text stays text in SVG, and the ids in it are reproducible.
_SAVE_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "elmo_tf", "pdf.fonttype": 42}
_WITHOUT_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def new_figure(width: float, height: float, layout: str = "constrained") -> "Figure":
    """Makes an empty figure whose parts will not overlap.

    Args:
        width, height: in inches.
        layout: matplotlib's name: "constrained", or "compressed" for panels of a fixed aspect
            ratio.
    """
    return matplotlib_module("figure").Figure(figsize=(width, height), layout=layout)


def add_grid(axes: "Axes") -> None:
    """Adds grid lines, and sets the size of the tick labels."""
    axes.tick_params(labelsize=TICK_SIZE, which="both")
    axes.grid(color="#e0e0e0", linewidth=0.6)


def add_colour_bar(figure: "Figure", image: "AxesImage", label: str, **settings: Any) -> None:
    """Adds the colour scale of a heat map."""
    bar = figure.colorbar(image, **settings)
    bar.set_label(label, fontsize=LABEL_SIZE)
    bar.ax.tick_params(labelsize=TICK_SIZE)


def check_picture(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that `save_figure` can write a file.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: the file name has no supported suffix.
        FileExistsError: the file exists and `overwrite` is false.
    """
    require_extra("matplotlib", "plot", "A picture")
    if _suffix(path) not in SUFFIXES:
        raise ValueError(
            f"A picture's name must end in one of {', '.join(SUFFIXES)}. "
            f"Received: {os.fspath(path)}"
        )
    refuse_file(path, overwrite)


def save_figure(
    figure: "Figure", path: str | os.PathLike, overwrite: bool = False, dpi: int = DPI
) -> None:
    """Writes a figure in the format of the file name's suffix. Equal figures give equal bytes.

    Args:
        figure: from `new_figure`.
        path: .png, .svg or .pdf.
        overwrite: whether to replace an existing file.
        dpi: int >= 1. Dots per inch of a PNG. Defaults to 150.

    Raises:
        ValueError, FileExistsError: see `check_picture`.
    """
    check_picture(path, overwrite)
    suffix = _suffix(path)
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
    found = [_FONT]
    missing = _missing(fonts.findfont(_FONT), set("".join(texts)))
    for entry in sorted(fonts.fontManager.ttflist, key=_plainest_first) if missing else ():
        if entry.name.startswith(_BOXES):
            continue
        left = _missing(entry.fname, missing)
        if left != missing:
            found.append(entry.name)
            missing = left
        if not missing:
            break
    if missing:
        logging.warning(
            "No installed font has %s: drawn as boxes, except in SVG.",
            " ".join(sorted(missing)[:20]) + (" …" if len(missing) > 20 else ""),
        )
    return found


def _plainest_first(entry: Any) -> tuple:
    return entry.style != "normal", abs(int(entry.weight) - 400), entry.name, entry.fname


def _missing(font_file: str, characters: set[str]) -> set[str]:
    try:
        font = matplotlib_module("ft2font").FT2Font(font_file)
    except (OSError, RuntimeError):
        return characters  # matplotlib's list of fonts may be outdated
    return {character for character in characters if not font.get_char_index(ord(character))}


def matplotlib_module(module: str) -> Any:
    """Imports a module of matplotlib, which is optional."""
    return require_extra(f"matplotlib.{module}", "plot", "A picture")


def _suffix(path: str | os.PathLike) -> str:
    return Path(path).suffix.lower()
