"""The learnt mixes of task models ─► a picture of the share of each layer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo_tf.evaluation.plots import style
from elmo_tf.models.elmo import Elmo

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In inches.
_ROW, _COLUMN, _MARGIN, _LETTER, _BAR_SPACE = 0.34, 0.72, 0.6, 0.075, 0.9
MOST_MIXES = 40
# Of a share, from which on dark letters are read better.
_LIGHT = 0.6


class Mix(NamedTuple):
    """A mix of the layers of a biLM.

    name: of the model, and of the place where the mix goes in.
    shares: float (layer,), of 1; the tokens' own layer first.
    scale: what the sum is multiplied with.
    """

    name: str
    shares: np.ndarray
    scale: float


def mixes_of(name: str, elmo: Elmo, places: Sequence[str]) -> list[Mix]:
    """The mixes of an `Elmo`, as they were learnt.

    Args:
        name: of the model.
        elmo: of which the layers are mixed.
        places: where they go in, one for each mix; a single mix is called by the model alone.

    Raises:
        ValueError: it reads the top layer alone, so that there is no mix.
    """
    if elmo.top_only:
        raise ValueError(f"{name} reads the top layer alone: there is no mix.")
    mixes = []
    for mix, place in zip(elmo.mixes, places, strict=True):
        label = name if len(elmo.mixes) == 1 else f"{name}, {place}"
        mixes.append(Mix(label, *mix.mixing_weights()))
    return mixes


def draw_mixes(mixes: Sequence[Mix]) -> "Figure":
    """Draws a row for each mix, and a column for each layer; shares stand in percent.

    Args:
        mixes: at least one, all of as many layers.

    Returns:
        A figure, for `save_figure`.

    Raises:
        ValueError: none, too many, or of unlike numbers of layers.
    """
    if not 1 <= len(mixes) <= MOST_MIXES:
        raise ValueError(f"A picture holds 1 to {MOST_MIXES} mixes. Received: {len(mixes)}")
    numbers = sorted({len(mix.shares) for mix in mixes})
    if len(numbers) > 1:
        raise ValueError(
            "All mixes must be of as many layers. Received: mixes of "
            f"{' and of '.join(map(str, numbers))} layers."
        )
    num_layers = numbers[0]
    labels = [mix.name for mix in mixes]
    width = _MARGIN + _LETTER * max(map(len, labels)) + _COLUMN * (num_layers + 1) + _BAR_SPACE
    figure = style.new_figure(width, 2 * _MARGIN + _ROW * len(mixes))
    axes = figure.subplots()
    shares = np.stack([mix.shares for mix in mixes])  # (mix, layer)
    image = axes.imshow(shares, cmap=style.HEAT_COLOURS, vmin=0, vmax=1, aspect="auto")
    for (row, layer), share in np.ndenumerate(shares):
        axes.text(
            *(layer, row, f"{100 * share:.0f}"),
            ha="center",
            va="center",
            fontsize=style.TICK_SIZE,
            color="black" if share > _LIGHT else "white",
        )
    axes.set_xticks(range(num_layers), [f"layer {layer}" for layer in range(num_layers)])
    axes.set_yticks(range(len(mixes)), labels, family=style.families(labels), parse_math=False)
    axes.tick_params(length=0, labelsize=style.TICK_SIZE)
    scales = axes.secondary_yaxis("right")
    scales.set_yticks(range(len(mixes)), [f"{mix.scale:.2f}" for mix in mixes])
    scales.tick_params(length=0, labelsize=style.TICK_SIZE)
    scales.set_ylabel("scale", fontsize=style.LABEL_SIZE)
    bar = figure.colorbar(image, ax=axes)
    bar.set_label("share of the mix", fontsize=style.LABEL_SIZE)
    bar.ax.tick_params(labelsize=style.TICK_SIZE)
    return figure
