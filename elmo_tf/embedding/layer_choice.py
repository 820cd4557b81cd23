"""The layers of a biLM ─► the vectors of an `Embedder`: all layers, or one vector per token."""

from typing import Any

import tensorflow as tf

from elmo_tf.layers.scalar_mix import ScalarMix

LAYERS = ("all", "top", "average", "mix")


class LayerChoice:
    """Selects or combines the layers of sentences.

    Args:
        name: one of `LAYERS`.
        mix: the built mix, for "mix".
    """

    def __init__(self, name: str, mix: ScalarMix | None = None):
        self.name = name
        self.mix = mix

    def __call__(self, layers: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """(batch, layer, token, feature) → (batch, …, token, feature)."""
        if self.name == "all":
            return layers
        if self.name == "top":
            return layers[:, -1]
        if self.name == "average":
            return tf.reduce_mean(layers, axis=1)
        return self.mix(layers, mask=mask)

    @property
    def mix_weights(self) -> list:
        """The variables of the mix; empty without a mix."""
        return [] if self.mix is None else list(self.mix.weights)

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
