"""Plot of the similarities of the tokens of sentences, with a panel for each layer."""

import math
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.plots import style
from elmo_tf.evaluation.stored_vectors import unit_vectors
from elmo_tf.evaluation.visible_text import shortened, visible

MAX_TOKENS = 60
_MAX_LABEL = 16
# In inches: a token, a letter of its label, the maximum width of a row of panels, and the minimum
# width of a panel.
_TOKEN, _LETTER, _MAX_WIDTH, _MIN_SIDE = 0.17, 0.08, 13.0, 2.0
# In inches: the space around a panel, the space of the color bar with its labels, and its size.
_MARGIN, _BAR_SPACE, _BAR_WIDTH, _BAR_LENGTH = 0.35, 1.0, 0.15, 5.0


class TokenSimilarities(NamedTuple):
    """Cosine similarities of all pairs of tokens of some sentences."""

    tokens: list[str]  # of all sentences
    beginnings: list[int]  # indices of the first tokens of the second and later sentences
    cosines: np.ndarray  # float32 (layer, token, token), -1 to 1


def token_similarities(
    embedder: Embedder, sentences: Sequence[str | Sequence[str]]
) -> TokenSimilarities:
    """Computes the cosine similarity of every pair of tokens in each layer.

    `cosine(a, b) = a · b / (|a| |b|)`, and 0 where a vector is zero.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        sentences: at least one, with at most 60 tokens in total; each a `str`, split like
            `str.split()`, or a list of tokens.

    Raises:
        ValueError: a sentence has no tokens, there are too many tokens, or `embedder` does not
            return all layers.
    """
    check_all_layers(embedder)
    split = checked_sentences(sentences)
    # (layer, token, feature)
    vectors = unit_vectors(np.concatenate(list(embedder.embed(split)), axis=1))
    ends = np.cumsum([len(tokens) for tokens in split])
    return TokenSimilarities(
        [token for tokens in split for token in tokens],
        ends[:-1].tolist(),
        np.clip(vectors @ vectors.transpose(0, 2, 1), -1, 1),
    )


def checked_sentences(sentences: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Splits and checks the sentences of `token_similarities`."""
    split = [one.split() if isinstance(one, str) else list(one) for one in sentences]
    if [] in split:
        index = split.index([])
        raise ValueError(f"Sentence {index + 1} has no tokens: {sentences[index]!r}.")
    num_tokens = sum(map(len, split))
    if not 1 <= num_tokens <= MAX_TOKENS:
        raise ValueError(
            f"A picture holds 1 to {MAX_TOKENS} tokens in total. Received: {num_tokens}"
        )
    return split


@style.styled
def draw_similarities(similarities: TokenSimilarities) -> style.Figure:
    """Draws a heat map for each layer, on one color scale; lines separate the sentences.

    Returns:
        A figure, for `save_figure`.
    """
    num_layers, num_tokens, _ = similarities.cosines.shape
    side = max(_MIN_SIDE, _TOKEN * num_tokens)
    labels = [shortened(visible(token), _MAX_LABEL) for token in similarities.tokens]
    space = _MARGIN + _LETTER * max(map(_width, labels))
    columns = min(num_layers, max(1, int(_MAX_WIDTH // (side + space))))
    rows = math.ceil(num_layers / columns)
    height = rows * (side + space + _MARGIN)
    width = columns * (side + space) + _BAR_SPACE
    figure = style.Figure(figsize=(width, height), layout="compressed")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels[num_layers:]:
        axes.remove()
    font = {"family": style.families(labels), "parse_math": False}
    lowest = min(0.0, math.floor(10 * similarities.cosines.min()) / 10)
    for layer, (axes, cosines) in enumerate(zip(panels, similarities.cosines, strict=False)):
        image = axes.imshow(cosines, cmap=style.HEAT_COLORS, vmin=lowest, vmax=1)
        note = {0: " (without context)", num_layers - 1: " (top)"}.get(layer, "")
        axes.set_title(f"Layer {layer}{note}")
        axes.set_xticks(range(num_tokens), labels, rotation=90, **font)
        axes.set_yticks(range(num_tokens), labels, **font)
        for beginning in similarities.beginnings:
            axes.axhline(beginning - 0.5, color="white")
            axes.axvline(beginning - 0.5, color="white")
    length = min(_BAR_LENGTH, 0.8 * height)
    size = {"shrink": length / height, "aspect": length / _BAR_WIDTH}
    figure.colorbar(image, ax=panels[:num_layers], label="cosine similarity", **size)
    return figure


def _width(label: str) -> int:
    """Approximate width in Latin letters."""
    return sum(2 if unicodedata.east_asian_width(letter) in "FW" else 1 for letter in label)
