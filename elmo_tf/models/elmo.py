"""Sentences ─► the mixed layers of a biLM: `Elmo`."""

import copy
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.custom_gradient_tf import release_reductions
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.layer_mixes import LayerMixes
from elmo_tf.text.inputs import as_tensor, checked_inputs, is_token, sentence_shape, token_batch


@keras.saving.register_keras_serializable(package="elmo_tf")
class Elmo(LayerMixes):
    """Mixes the layers of a biLM with learned mixing weights into vectors for a task model.

    Args:
        bilm: a `BiLM`.
        num_mixes: int >= 1. Number of independent mixes of the same layers. Defaults to 1.
        dropout: float >= 0 and < 1. Dropout rate of the mixed vectors, in training only. Defaults
            to 0.5.
        layer_norm: bool. Whether each layer is normalized over the batch before the mix, an option
            of the original. The vectors of a sentence then depend on its batch. Defaults to False.
        l2: float >= 0. Strength of the penalty on the mixing weights. Defaults to 0.
        trainable_bilm: bool. Whether training updates the biLM. If False, the weights of the biLM
            are not among this layer's trainable weights; the `bilm` itself is not changed. You can
            set the attribute `trainable_bilm` at any time; then compile the model again. Defaults
            to False.
        top_only: bool. Whether to scale the top layer instead of mixing. Defaults to False.
        average: bool. Whether to scale the average of the layers instead of learning mixing
            weights. Defaults to False.

    Call arguments:
        inputs: see `BiLM`. Symbolic string inputs are `keras.Input((None,), dtype="string")` for
            tokens and `keras.Input((), dtype="string")` for sentences.
        lengths: int (batch,) or None. Number of real tokens per row.
        training: bool.

    Returns:
        float (batch, token, bilm.config.output_dim), zero at masked tokens, with its mask (True for
        real tokens); a list of these if `num_mixes` is above 1.

    Raises:
        TypeError: `bilm` is not a `BiLM`.
        ValueError: an argument is out of range, both `top_only` and `average` are True, or `bilm`
            has keep_boundaries=True.

    Source: Peters et al. 2018, sections 3.2 and 3.3.
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
                "`bilm` must be a BiLM; use Elmo.from_pretrained(path) for a checkpoint. "
                f"Received: {bilm!r} (of type {type(bilm).__name__})."
            )
        if bilm.keep_boundaries:
            raise ValueError(
                "An Elmo returns vectors of tokens only: load `bilm` with keep_boundaries=False."
            )
        self._untracked = _UntrackedBiLM.shared(bilm)
        self._track_trackable(bilm, "bilm")  # for TensorFlow's checkpoints and SavedModels
        self.trainable_bilm = trainable_bilm
        self._create_mixes(num_mixes, dropout, layer_norm, l2, top_only, average)
        # Layer names must be unique within a model.
        self._mask_layer = TokenMask(name=f"{self.name}_mask")
        self.supports_masking = True
        self.supports_jit = False  # XLA does not support strings

    @classmethod
    def from_pretrained(cls, path: Any, **kwargs) -> "Elmo":
        """Creates an `Elmo` from a checkpoint.

        Args:
            path: see `elmo_tf.load_bilm`.
            **kwargs: arguments of `Elmo`.
        """
        from elmo_tf.checkpoints.load import load_bilm

        return cls(load_bilm(path), **kwargs)

    @tf.autograph.experimental.do_not_convert
    def preprocess(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Converts a batch of strings to integers, for `dataset.map(elmo.preprocess)`.

        A model that reads `keras.Input((None, ids), dtype="int32")` can be trained on several
        devices, to which Keras cannot distribute strings; and `cache()` of the dataset then saves
        the conversion.

        Args:
            x: strings, see the call.
            y, sample_weight: are returned unchanged.

        Returns:
            int32 (batch, token, id), see `BiLM.char_ids`; (batch, token) for a biLM without a
            character CNN. With `y`, a tuple `(x, y)` or `(x, y, sample_weight)`.
        """
        return keras.utils.pack_x_y_sample_weight(self.bilm.ids(x), y, sample_weight)

    @property
    def bilm(self) -> BiLM:
        """The biLM whose layers are mixed."""
        return self._untracked.bilm

    def share_bilm(self, other: "Elmo") -> None:
        """Replaces the biLM by that of another `Elmo` with the same weights, which saves memory.

        Call it before the layer is called or compiled.
        """
        self._untracked = other._untracked
        self._tracker.unlock()  # Keras locks the sublayers of a built layer
        self._track_trackable(self.bilm, "bilm", overwrite=True)
        self._tracker.untrack(self.bilm)
        self._tracker.lock()

    @property
    def num_layers(self) -> int:
        return self.bilm.config.lstm.num_layers + 1

    @property
    def dim(self) -> int:
        return self.bilm.config.output_dim

    # A `Sequential` without an `Input` converts inputs to these dtypes; Keras' `TextVectorization`
    # overrides them too. The sublayers use `dtype_policy`.
    @property
    def compute_dtype(self) -> str:
        return "string"

    @property
    def variable_dtype(self) -> str:
        return "string"

    @property
    def trainable_bilm(self) -> bool:
        """Whether training updates the biLM."""
        return self._trained_bilm is not None

    @trainable_bilm.setter
    def trainable_bilm(self, value: bool) -> None:
        was_locked = self._tracker.locked
        self._tracker.unlock()  # Keras locks the sublayers of a built layer
        self._tracker.untrack(self.bilm)
        self._trained_bilm = self.bilm if value else None  # Keras tracks this attribute
        if was_locked:
            self._tracker.lock()
        if value and not self.trainable:
            self.bilm.trainable = False

    def __call__(self, inputs, lengths=None, **kwargs):
        inputs, lengths = checked_inputs(inputs, lengths)
        outputs = super().__call__(inputs, lengths=lengths, **kwargs)
        if isinstance(inputs, keras.KerasTensor):
            # The mask of symbolic strings must be a layer of the functional model.
            mask = self._mask_layer(inputs, lengths=lengths)
            for output in outputs if self.num_mixes > 1 else [outputs]:
                output._keras_mask = mask
        return outputs

    def call(self, inputs, lengths=None, training=False):
        if not tf.executing_eagerly():
            release_reductions()
        outputs = self.bilm(inputs, lengths=lengths, training=training and self.trainable_bilm)
        return self.of_layers(outputs["layers"], outputs["mask"], training)

    def of_layers(self, layers: Any, mask: Any, training: bool = False) -> Any:
        if not self.trainable_bilm:
            layers = tf.stop_gradient(layers)
        return super().of_layers(layers, mask, training)

    def compute_output_spec(self, inputs, lengths=None, training=False):
        # Without this method, Keras traces `call` to find the shape of each symbolic output.
        shape = (*sentence_shape(inputs.shape), self.dim)
        dtype = self.dtype_policy.compute_dtype
        outputs = [keras.KerasTensor(shape, dtype) for _ in self.mixes]
        return outputs if self.num_mixes > 1 else outputs[0]

    def compute_output_shape(self, input_shape):
        shape = (*sentence_shape(input_shape), self.dim)
        return [shape] * self.num_mixes if self.num_mixes > 1 else shape

    def compute_mask(self, inputs, previous_mask=None):
        # `call` attaches the mask to its outputs, and `__call__` to symbolic outputs.
        return None

    @property
    def variables(self):
        return [*super().variables, *self._frozen_weights()]

    @property
    def weights(self):
        return [*super().weights, *self._frozen_weights()]

    def _frozen_weights(self) -> list[keras.Variable]:
        return [] if self.trainable_bilm else self._untracked.frozen_weights

    def get_config(self):
        bilm = keras.saving.serialize_keras_object(self.bilm)
        # Keras drops this id within a model. With it, layers still share a biLM after loading.
        bilm["shared_object_id"] = id(self.bilm)
        return {
            **super().get_config(),
            "bilm": _LiveConfig(bilm, self._untracked),
            "trainable_bilm": self.trainable_bilm,
        }

    @classmethod
    def from_config(cls, config):
        bilm = config["bilm"]
        if isinstance(bilm, _LiveConfig):
            bilm = bilm.source.clone(bilm, config["name"])
        else:
            bilm = keras.saving.deserialize_keras_object(bilm)
        return cls(**{**config, "bilm": bilm})


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenMask(keras.layers.Layer):
    """Computes the mask of the inputs of a biLM, bool (batch, token). True for real tokens."""

    def call(self, inputs, lengths=None):
        inputs = as_tensor(inputs)  # Keras does not convert ragged tensors
        if inputs.dtype == tf.string:
            inputs, lengths = token_batch(inputs, lengths)
        if lengths is None:
            return is_token(inputs)
        return tf.sequence_mask(lengths, tf.shape(inputs)[1])

    def compute_output_spec(self, inputs, lengths=None):
        return keras.KerasTensor(sentence_shape(inputs.shape), dtype="bool")


class _UntrackedBiLM:
    """Hides a biLM from Keras' tracking, so that it does not become a sublayer.

    Attributes:
        bilm: the biLM.
        frozen_weights: aliases of its weights that are not trainable. The weights of the biLM
            itself stay trainable.
    """

    def __init__(self, bilm: BiLM):
        self.bilm = bilm
        self.frozen_weights = [copy.copy(variable) for variable in bilm.weights]
        for alias in self.frozen_weights:
            alias._trainable = False
        self._last_clone: Callable[[], BiLM | None] = lambda: None
        self._clone_names: set[str] = set()  # of the layers that have the last clone

    @classmethod
    def shared(cls, bilm: BiLM) -> "_UntrackedBiLM":
        """Returns one object per biLM, so that a model with several layers counts weights once."""
        if not hasattr(bilm, "_untracked"):
            bilm._untracked = cls(bilm)
        return bilm._untracked

    def clone(self, config: dict[str, Any], name: str) -> BiLM:
        """Returns a new biLM for the clone of the layer `name`, or the last one made for others.

        So in a clone of a model, as in the model, several layers share a biLM. Cloning the same
        layer again gives it another biLM.
        """
        bilm = self._last_clone()
        if bilm is None or name in self._clone_names:
            bilm = keras.saving.deserialize_keras_object(config)
            self._last_clone, self._clone_names = weakref.ref(bilm), set()
        self._clone_names.add(name)
        return bilm


class _LiveConfig(dict):
    """The configuration of a biLM, with its `_UntrackedBiLM` until it is written to a file."""

    def __init__(self, config: dict[str, Any], source: _UntrackedBiLM):
        super().__init__(config)
        self.source = source
