"""Common style of all plots (sizes, colors, fonts), and saving as PNG, SVG or PDF.

Figures are made without `pyplot`, so they need no display and leave no global state. Colors are
also distinguishable in gray: lines by marker or dash, heat maps by lightness.
"""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from absl import logging

from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, refuse_file

matplotlib = require_extra("matplotlib", "plot", "A picture")
fonts = require_extra("matplotlib.font_manager", "plot", "A picture")
Figure = require_extra("matplotlib.figure", "plot", "A picture").Figure

SUFFIXES = (".png", ".svg", ".pdf")
HEAT_COLORS = "cividis"
# Okabe and Ito's palette, from dark to light.
_COLORS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
LINES = [{"color": color, "marker": mark} for color, mark in zip(_COLORS, "os^DvPX", strict=True)]

# Fonts of matplotlib: one with many characters, and one that draws any character as a box.
_FONT, _BOXES = "DejaVu Sans", "Last Resort"
_STYLE = {
    "figure.constrained_layout.use": True,  # the parts do not overlap
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "grid.color": "#e0e0e0",
    # Text stays text in SVG, and the ids in it are reproducible.
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo_tf",
    "pdf.fonttype": 42,
}
_WITHOUT_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

# Decorator of a function that draws a figure.
styled = matplotlib.rc_context(_STYLE)


def check_picture(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Checks that `save_figure` can write a file.

    Raises:
        ValueError: the file name has no supported suffix.
        FileExistsError: the file exists and `overwrite` is false.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"A picture's name must end in one of {', '.join(SUFFIXES)}. "
            f"Received: {os.fspath(path)}"
        )
    refuse_file(path, overwrite)


@styled
def save_figure(
    figure: Figure, path: str | os.PathLike, overwrite: bool = False, dpi: int = 150
) -> None:
    """Writes a figure in the format of the file name's suffix. Equal figures give equal bytes.

    `dpi`: dots per inch of a PNG. Raises: see `check_picture`.
    """
    check_picture(path, overwrite)
    suffix = Path(path).suffix.lower()
    with atomic_file(path, overwrite) as part, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # `families` warns once
        figure.savefig(part, format=suffix[1:], dpi=dpi, metadata=_WITHOUT_DATE[suffix])


def families(texts: Iterable[str]) -> list[str]:
    """Finds font families that together have the characters of some texts.

    matplotlib's own font comes first, then installed fonts. Characters that no font has are drawn
    as boxes (in SVG the reader's fonts are used) and reported by a warning.
    """
    names, missing = [_FONT], set("".join(texts))
    plainest_first = sorted(
        (entry for entry in fonts.fontManager.ttflist if not entry.name.startswith(_BOXES)),
        key=lambda e: (e.name != _FONT, e.style != "normal", abs(int(e.weight) - 400), e.fname),
    )
    for entry in plainest_first:
        if not missing:
            break
        try:
            font = fonts.get_font(entry.fname)
        except (OSError, RuntimeError):
            continue  # matplotlib's list of fonts may be outdated
        left = {character for character in missing if not font.get_char_index(ord(character))}
        if left != missing and entry.name not in names:
            names.append(entry.name)
        missing = left
    if missing:
        logging.warning("No installed font has %s: drawn as boxes.", " ".join(sorted(missing)[:20]))
    return names
