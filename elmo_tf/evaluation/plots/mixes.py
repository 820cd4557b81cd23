"""Plot of the layer mixes that task models have learned."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.evaluation.plots import style
from elmo_tf.models.elmo import LayerMixes

# In inches.
_ROW, _COLUMN, _MARGIN, _LETTER, _BAR_SPACE = 0.34, 0.72, 0.6, 0.075, 0.9
MAX_MIXES = 40


class Mix(NamedTuple):
    """A mix of the layers of a biLM."""

    name: str  # of the model, and of the mix's place in it
    shares: np.ndarray  # (layer,), which sum to 1; layer 0 first
    scale: float


def mixes_of(name: str, elmo: LayerMixes, places: Sequence[str]) -> list[Mix]:
    """Returns the learned mixes of an `Elmo` layer; `ValueError` if it only uses the top layer.

    `places` says where each mix is used. The name of a single mix is that of the model, `name`.
    """
    if elmo.top_only:
        raise ValueError(f"{name} only uses the top layer: there is no mix.")
    names = [name] if len(elmo.mixes) == 1 else [f"{name}, {place}" for place in places]
    return [Mix(label, *mix.mixing_weights()) for label, mix in zip(names, elmo.mixes, strict=True)]


@style.styled
def draw_mixes(mixes: Sequence[Mix]) -> style.Figure:
    """Draws a row per mix and a column per layer, with shares in percent.

    Args:
        mixes: 1 to 40 mixes of the same number of layers.

    Returns:
        A figure, for `save_figure`.

    Raises:
        ValueError: there are too few or too many mixes, or their numbers of layers differ.
    """
    if not 1 <= len(mixes) <= MAX_MIXES:
        raise ValueError(f"A picture holds 1 to {MAX_MIXES} mixes. Received: {len(mixes)}")
    sizes = sorted({len(mix.shares) for mix in mixes})
    if len(sizes) > 1:
        raise ValueError(
            "All mixes must have the same number of layers. Received: mixes of "
            f"{' and of '.join(map(str, sizes))} layers."
        )
    labels = [mix.name for mix in mixes]
    shares = np.stack([mix.shares for mix in mixes])  # (mix, layer)
    num_mixes, num_layers = shares.shape
    width = _MARGIN + _LETTER * max(map(len, labels)) + _COLUMN * (num_layers + 1) + _BAR_SPACE
    figure = style.Figure(figsize=(width, 2 * _MARGIN + _ROW * num_mixes))
    axes = figure.subplots()
    image = axes.imshow(shares, cmap=style.HEAT_COLORS, vmin=0, vmax=1, aspect="auto")
    for (row, layer), share in np.ndenumerate(shares):
        color = "black" if share > 0.6 else "white"
        axes.text(layer, row, f"{100 * share:.0f}", ha="center", va="center", size=8, color=color)
    axes.set_xticks(range(num_layers), [f"layer {layer}" for layer in range(num_layers)])
    axes.set_yticks(range(num_mixes), labels, family=style.families(labels), parse_math=False)
    scales = axes.secondary_yaxis("right")
    scales.set_yticks(range(num_mixes), [f"{mix.scale:.2f}" for mix in mixes])
    scales.set_ylabel("scale")
    figure.colorbar(image, ax=axes, label="share of the mix")
    return figure
