"""Figure ─► PNG, SVG or PDF; and what all pictures have in common: sizes, colours, fonts.

Figures are made without `pyplot`: nothing is left behind in matplotlib, and no display is needed.
Colours are told apart in grey too: lines also by marker or dash, heat maps by lightness.
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
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 150
TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 10, 9, 8
HEAT_COLOURS = "cividis"
# One for each thing that lines are of; from dark to light, of Okabe and Ito's palette.
LINE_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
LINE_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Come with matplotlib: a font of many letters, and one of boxes for all there are.
_FONT, _BOXES = "DejaVu Sans", "Last Resort"
# Text of SVG stays text, and the names in it are the same each time.
_WHILE_SAVED = {"svg.fonttype": "none", "svg.hashsalt": "elmo_tf", "pdf.fonttype": 42}
_WITHOUT_DATE = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def new_figure(width: float, height: float, layout: str = "constrained") -> "Figure":
    """An empty figure, of which no parts will overlap.

    Args:
        width, height: in inches.
        layout: of matplotlib: "constrained", or "compressed" for panels whose sides have a fixed
            ratio.
    """
    figure = require_extra("matplotlib.figure", "plot", "A picture")
    return figure.Figure(figsize=(width, height), layout=layout)


def check_picture(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Refuses, before the work begins, a picture that could not be written.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: the name of the file tells no format.
        FileExistsError: the file exists, and may not be replaced.
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
    """Writes a figure in the format that the file's name tells. The same figure, the same bytes.

    Args:
        figure: of `new_figure`.
        path: .png, .svg or .pdf.
        overwrite: whether the file may be replaced.
        dpi: int >= 1. Dots of an inch, of PNG.

    Raises:
        ValueError, FileExistsError: see `check_picture`.
    """
    check_picture(path, overwrite)
    suffix = _suffix(path)
    matplotlib = require_extra("matplotlib", "plot", "A picture")
    with (
        atomic_file(path, overwrite) as part,
        matplotlib.rc_context(_WHILE_SAVED),
        warnings.catch_warnings(),
    ):
        # Once for all of them, by `families`.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(part, format=suffix[1:], dpi=dpi, metadata=_WITHOUT_DATE[suffix])


def families(texts: Iterable[str]) -> list[str]:
    """Families of fonts that together have the characters of some texts.

    Of matplotlib's own font, then of those installed. What none has is drawn as boxes, but in SVG,
    where the fonts of who looks at it count; a warning tells of it.
    """
    fonts = require_extra("matplotlib.font_manager", "plot", "A picture")
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
            "No installed font has %s: boxes stand for it, but in SVG.",
            " ".join(sorted(missing)[:20]) + (" …" if len(missing) > 20 else ""),
        )
    return found


def _plainest_first(entry: Any) -> tuple:
    return entry.style != "normal", abs(int(entry.weight) - 400), entry.name, entry.fname


def _missing(font_file: str, characters: set[str]) -> set[str]:
    ft2font = require_extra("matplotlib.ft2font", "plot", "A picture")
    try:
        font = ft2font.FT2Font(font_file)
    except (OSError, RuntimeError):
        # matplotlib keeps a list of fonts, some of which may be gone since.
        return characters
    return {character for character in characters if not font.get_char_index(ord(character))}


def _suffix(path: str | os.PathLike) -> str:
    return Path(path).suffix.lower()
