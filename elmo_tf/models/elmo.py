"""BiLM ─► Elmo: the layer that task models put in front of their own."""

import copy
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.scalar_mix import MixingWeights, ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.text.inputs import as_tensor, checked_inputs, is_token, token_batch


@keras.saving.register_keras_serializable(package="elmo_tf")
class Elmo(keras.layers.Layer):
    """Contextual vectors for a task model: all layers of a biLM, mixed with learnt weights.

    Args:
        bilm: a `BiLM`.
        num_mixes: int >= 1. Independent mixes of the same layers. Defaults to 1.
        dropout: float, 0 to 1 (excluded). Rate on the mixed vectors, in training alone. Defaults to
            0.5.
        layer_norm: bool. Whether each layer is normalised over the batch before the mix, as the
            paper's code offers; a sentence's vectors then depend on its batch. Defaults to False.
        l2: float >= 0. Penalty on the weights of the mix. Defaults to 0.
        trainable_bilm: bool. Whether the task trains the biLM too. If False, its weights stay out
            of this layer's trainable weights; the biLM that was passed is left as it is. The
            attribute of this name can be set at any time; compile the model again afterwards.
            Defaults to False.
        top_only: bool. Only the top layer, scaled, in place of a mix. Defaults to False.
        average: bool. All layers alike, scaled, in place of learnt shares. Defaults to False.

    Call arguments:
        inputs: see `BiLM`; a symbolic string input too: `keras.Input((None,), dtype="string")` for
            tokens, `keras.Input((), dtype="string")` for sentences.
        lengths: int (batch,) or None. Real tokens of each row.
        training: bool.

    Returns:
        float (batch, token, bilm.config.output_dim), zero at masked tokens, with its mask (True = a
        real token); a list of them if `num_mixes` is above 1.

    Raises:
        TypeError: `bilm` is none.
        ValueError: an argument out of its range, `top_only` beside `average`, or a biLM that keeps
            the boundaries.

    Source: Peters et al. 2018, section 3.2 and 3.3.
    """

    def __init__(
        self,
        bilm: BiLM,
        num_mixes: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        l2: float = 0.0,
        trainable_bilm: bool = False,
        top_only: bool = False,
        average: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(bilm, BiLM):
            raise TypeError(
                "`bilm` must be a BiLM; Elmo.from_pretrained(path) reads a checkpoint. "
                f"Received: {bilm!r} (of type {type(bilm).__name__})."
            )
        if bilm.keep_boundaries:
            raise ValueError(
                "`bilm` keeps the boundaries. Vectors are of tokens alone: load the biLM with "
                "keep_boundaries=False."
            )
        if num_mixes < 1:
            raise ValueError(f"`num_mixes` must be at least 1. Received: {num_mixes}")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be at least 0 and below 1. Received: {dropout}")
        if top_only and average:
            raise ValueError("`top_only` and `average` exclude each other.")
        self.num_mixes = num_mixes
        self.layer_norm = layer_norm
        self.l2 = l2
        self.top_only = top_only
        self.average = average
        self._below = _Below.of(bilm)
        self.trainable_bilm = trainable_bilm
        self.mixes = [
            ScalarMix(l2, layer_norm, average, dtype=self.dtype_policy, name=f"mix_{index}")
            for index in range(num_mixes)
        ]
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        # Within a model all layers need names of their own.
        self._mask_layer = TokenMask(name=f"{self.name}_mask")
        self.supports_masking = True
        self.supports_jit = False  # strings

    @classmethod
    def from_pretrained(cls, path: Any, **kwargs) -> "Elmo":
        """An `Elmo` over a checkpoint.

        Args:
            path: see `elmo_tf.load_bilm`.
            **kwargs: arguments of `Elmo`.
        """
        from elmo_tf.checkpoints.load import load_bilm

        return cls(load_bilm(path), **kwargs)

    @property
    def bilm(self) -> BiLM:
        """The biLM below."""
        return self._below.bilm

    def mixing_weights(self) -> MixingWeights | list[MixingWeights]:
        """The learnt weights of the layers, after the softmax, and their scale.

        Returns:
            `weights`, float32 (layer,), and `scale`, float; a list of them if `num_mixes` is
            above 1.
        """
        if not self.built:
            self.build()
        mixes = [mix.mixing_weights() for mix in self.mixes]
        return mixes if self.num_mixes > 1 else mixes[0]

    # A `Sequential` without an `Input` gives its first layer inputs of these types, as Keras's own
    # `TextVectorization` knows. The parts of this layer compute by its `dtype_policy`.
    @property
    def compute_dtype(self) -> str:
        return "string"

    @property
    def variable_dtype(self) -> str:
        return "string"

    @property
    def trainable_bilm(self) -> bool:
        """Whether the task trains the biLM too."""
        return self._trained_bilm is not None

    @trainable_bilm.setter
    def trainable_bilm(self, value: bool) -> None:
        was_locked = self._tracker.locked
        self._tracker.unlock()  # Keras adds no parts to a layer that is built
        self._tracker.untrack(self.bilm)
        self._trained_bilm = self.bilm if value else None  # tracked by Keras as a part
        if was_locked:
            self._tracker.lock()
        if value and not self.trainable:
            self.bilm.trainable = False

    def build(self, input_shape=None):
        config = self.bilm.config
        num_layers = 1 if self.top_only else config.lstm.num_layers + 1
        for mix in self.mixes:
            mix.build((None, num_layers, None, config.output_dim))

    def __call__(self, inputs, lengths=None, **kwargs):
        inputs, lengths = checked_inputs(inputs, lengths)
        outputs = super().__call__(inputs, lengths=lengths, **kwargs)
        if isinstance(inputs, keras.KerasTensor):
            # On symbolic strings the mask is an operation of its own in the model's graph.
            mask = self._mask_layer(inputs, lengths=lengths)
            for output in outputs if self.num_mixes > 1 else [outputs]:
                output._keras_mask = mask
        return outputs

    def call(self, inputs, lengths=None, training=False):
        outputs = self.bilm(inputs, lengths=lengths, training=training and self.trainable_bilm)
        return self.of_layers(outputs["layers"], outputs["mask"], training)

    def of_layers(self, layers: Any, mask: Any, training: bool = False) -> Any:
        """What a call gives, from layers of the biLM that are known already.

        Args:
            layers: float (batch, layer, token, feature), zero at masked tokens.
            mask: bool (batch, token). True = a real token.
            training: see the call.
        """
        if not self.trainable_bilm:
            layers = tf.stop_gradient(layers)
        if self.top_only:
            layers = layers[:, -1:]
        mixed = []
        for mix in self.mixes:
            vectors = self.dropout(mix(layers, mask=mask), training=training)
            vectors._keras_mask = mask
            mixed.append(vectors)
        return mixed if self.num_mixes > 1 else mixed[0]

    def compute_mask(self, inputs, previous_mask=None):
        # `call` attaches the mask to its outputs, and `__call__` where they are symbolic.
        return None

    @property
    def variables(self):
        return [*super().variables, *self._frozen()]

    @property
    def weights(self):
        return [*super().weights, *self._frozen()]

    def _frozen(self) -> list[keras.Variable]:
        return [] if self.trainable_bilm else self._below.frozen_weights

    def get_config(self):
        bilm = keras.saving.serialize_keras_object(self.bilm)
        # Keras loses this mark within a model; with it, layers that share a biLM do so when loaded.
        bilm["shared_object_id"] = id(self.bilm)
        return {
            **super().get_config(),
            "bilm": bilm,
            "num_mixes": self.num_mixes,
            "dropout": self.dropout.rate,
            "layer_norm": self.layer_norm,
            "l2": self.l2,
            "trainable_bilm": self.trainable_bilm,
            "top_only": self.top_only,
            "average": self.average,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["bilm"] = keras.saving.deserialize_keras_object(config["bilm"])
        return cls(**config)


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenMask(keras.layers.Layer):
    """Where the real tokens of a biLM's inputs are.

    Call arguments:
        inputs, lengths: see `BiLM`.

    Returns:
        bool (batch, token). True = a real token.
    """

    def call(self, inputs, lengths=None):
        inputs = as_tensor(inputs)  # Keras hands ragged tensors on
        if inputs.dtype == tf.string:
            tokens, lengths = token_batch(inputs, lengths)
            return tf.sequence_mask(lengths, tf.shape(tokens)[1])
        if lengths is not None:
            return tf.sequence_mask(lengths, tf.shape(inputs)[1])
        return is_token(inputs)

    def compute_output_spec(self, inputs, lengths=None):
        shape = (inputs.shape[0], inputs.shape[1] if len(inputs.shape) > 1 else None)
        return keras.KerasTensor(shape, dtype="bool")


class _Below:
    """Holds a biLM where Keras does not count it as a part of the layer, and shows it as frozen.

    Attributes:
        bilm: the biLM.
        frozen_weights: its weights in the same memory, not trainable, while its own stay so.
    """

    def __init__(self, bilm: BiLM):
        self.bilm = bilm
        self.frozen_weights = [copy.copy(variable) for variable in bilm.weights]
        for alias in self.frozen_weights:
            alias._trainable = False

    @classmethod
    def of(cls, bilm: BiLM) -> "_Below":
        """The same for all layers over one biLM, so that a model counts its weights once."""
        if not hasattr(bilm, "_below"):
            bilm._below = cls(bilm)
        return bilm._below
