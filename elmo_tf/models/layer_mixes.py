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


@keras.saving.register_keras_serializable(package="elmo_tf")
class VectorMix(LayerMixes):
    """Mixes vectors that another model computed, in place of an `Elmo` in a task model.

    The task model then reads the vectors with its texts: see `layers` of `TaskModel`.

    Args:
        num_layers: int >= 1. Number of vectors per token.
        dim: int >= 1. Width of the vectors.
        num_mixes, dropout, layer_norm, l2, top_only, average: see `Elmo`.

    Returns:
        See `Elmo`.

    Raises:
        ValueError: an argument is out of range, or the layer is called with texts alone.
    """

    def __init__(
        self,
        num_layers: int,
        dim: int,
        num_mixes: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        l2: float = 0.0,
        top_only: bool = False,
        average: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_int(num_layers, "num_layers", ge=1)
        check_int(dim, "dim", ge=1)
        self.num_layers = num_layers
        self.dim = dim
        self._create_mixes(num_mixes, dropout, layer_norm, l2, top_only, average)

    def call(self, inputs, lengths=None, training=False):
        raise ValueError(
            "This model mixes vectors from a file, and cannot compute them: pass them as `layers`."
        )

    def get_config(self):
        return {**super().get_config(), "num_layers": self.num_layers, "dim": self.dim}
