"""The layers of a biLM ─► the vectors that were asked for, whole or window by window."""

import tensorflow as tf

from elmo_tf.layers.scalar_mix import ScalarMix

LAYERS = ("all", "top", "average", "mix")


class LayerChoice:
    """What becomes of the layers of a sentence.

    Args:
        name: one of `LAYERS`.
        num_layers: int. Layers that there are, the tokens' own included.
        mix: of "mix", built.
    """

    def __init__(self, name: str, num_layers: int, mix: ScalarMix | None = None):
        self.name = name
        self._num_layers = num_layers
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
        """The variables of the mix; none without one."""
        return [] if self.mix is None else list(self.mix.weights)

    @property
    def is_sum(self) -> bool:
        """Whether each token's vector is a weighted sum of its layers, and nothing else."""
        return self.mix is None or not self.mix.layer_norm

    def weights(self) -> tf.Tensor | None:
        """Weights of the layers, float32 (layer,); None if they stay apart."""
        if self.name == "all":
            return None
        if self.name == "top":
            return tf.one_hot(self._num_layers - 1, self._num_layers)
        if self.name == "average":
            return tf.fill([self._num_layers], 1 / self._num_layers)
        return self.mix.scaling * self.mix.softmax_weights()
