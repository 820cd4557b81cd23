"""The layers of a biLM ─► the vectors of an `Embedder`: all layers, or one vector per token."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config import LAYERS
from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.layers.scalar_mix import ScalarMix


def check_layers(
    layers: Any, num_layers: int | None = None, allowed: Sequence[str] = LAYERS
) -> None:
    """Raises `ValueError` unless `layers` is an allowed name or below `num_layers`, if known."""
    if isinstance(layers, str):
        check_choice(layers, "layers", allowed)
        return
    check_int(layers, "layers", ge=0)
    if num_layers is not None and layers >= num_layers:
        raise ValueError(
            f"`layers` must be at most {num_layers - 1}: the model has the layers 0 to "
            f"{num_layers - 1}. Received: {layers}"
        )


class LayerChoice:
    """Selects or combines the layers of sentences. `mix` is the built mix, for the layers "mix"."""

    def __init__(self, layers: str | int, mix: ScalarMix | None = None):
        self.layers = layers
        self.mix = mix

    def __call__(self, layers: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """(batch, layer, token, feature) → (batch, …, token, feature).

        For "concat", all layers: `arranged` concatenates them.
        """
        if self.layers in ("all", "concat"):
            return layers
        if self.layers == "average":
            return tf.reduce_mean(layers, axis=1)
        if self.layers == "sum":
            return tf.reduce_sum(layers, axis=1)
        if self.layers == "mix":
            return self.mix(layers, mask=mask)
        return layers[:, -1 if self.layers == "top" else self.layers]

    def arranged(self, vectors: np.ndarray) -> np.ndarray:
        """The vectors of a sentence from its part of the call; "concat": (token, feature)."""
        return np.concatenate(vectors, axis=-1) if self.layers == "concat" else vectors

    def width(self, dim: int, num_layers: int) -> int:
        """The width of a vector, from that of a layer."""
        return dim * num_layers if self.layers == "concat" else dim

    @property
    def is_local(self) -> bool:
        """Whether each output value depends only on the layers at the same token and feature."""
        return self.mix is None or not self.mix.layer_norm


def check_all_layers(embedder: Any, argument: str = "embedder") -> None:
    """Raises `ValueError` unless an `Embedder` returns all layers."""
    if embedder.layers != "all":
        raise ValueError(
            f'`{argument}` must return all layers (layers="all"). Received: {embedder.layers!r}'
        )
