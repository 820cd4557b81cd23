"""The layers of a model ─► vectors, by learned mixing weights."""

from typing import Any

import keras

from elmo_tf.config_checks import check_int, check_rate
from elmo_tf.layers.scalar_mix import MixingWeights, ScalarMix
from elmo_tf.layers.weights import TrackedParts


class LayerMixes(TrackedParts, keras.layers.Layer):
    """The base class of layers that mix the layers of a model with learned mixing weights."""

    num_layers: int
    """The number of layers to mix."""
    dim: int
    """The width of the vectors."""

    def _create_mixes(
        self,
        num_mixes: int,
        dropout: float,
        layer_norm: bool,
        l2: float,
        top_only: bool,
        average: bool,
    ) -> None:
        """Creates the mixes and the dropout. Arguments and errors: see `Elmo`."""
        check_int(num_mixes, "num_mixes", ge=1)
        check_rate(dropout, "dropout")
        if top_only and average:
            raise ValueError("Only one of `top_only` and `average` may be True.")
        self.num_mixes = num_mixes
        self.layer_norm = layer_norm
        self.l2 = l2
        self.top_only = top_only
        self.average = average
        self.mixes = [
            ScalarMix(l2, layer_norm, average, dtype=self.dtype_policy, name=f"mix_{index}")
            for index in range(num_mixes)
        ]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape=None):
        num_layers = 1 if self.top_only else self.num_layers
        for mix in self.mixes:
            mix.build((None, num_layers, None, self.dim))

    def mixing_weights(self) -> MixingWeights | list[MixingWeights]:
        """Returns the learned mixing weights and the scale; a list if `num_mixes` is above 1."""
        if not self.built:
            self.build()
        mixes = [mix.mixing_weights() for mix in self.mixes]
        return mixes if self.num_mixes > 1 else mixes[0]

    def of_layers(self, layers: Any, mask: Any, training: bool = False) -> Any:
        """Computes the result of a call from the layers, zero at masked tokens, and the mask."""
        if self.top_only:
            layers = layers[:, -1:]
        mixed = []
        for mix in self.mixes:
            vectors = self.dropout(mix(layers, mask=mask), training=training)
            vectors._keras_mask = mask
            mixed.append(vectors)
        return mixed if self.num_mixes > 1 else mixed[0]

    def get_config(self):
        return {
            **super().get_config(),
            "num_mixes": self.num_mixes,
            "dropout": self.dropout.rate,
            "layer_norm": self.layer_norm,
            "l2": self.l2,
            "top_only": self.top_only,
            "average": self.average,
        }
