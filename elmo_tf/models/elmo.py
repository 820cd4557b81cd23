"""Sentences ─► the mixed layers of a biLM: `Elmo`, and the mask for the layers above it."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.layers.scalar_mix import MixingWeights, ScalarMix
from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.bilm import BiLM
from elmo_tf.text.inputs import as_tensor, checked_inputs, is_token, sentence_shape, token_batch


@keras.saving.register_keras_serializable(package="elmo_tf")
class Elmo(keras.layers.Layer):
    """Mixes the layers of a biLM with learned mixing weights into vectors for a task model.

    Args:
        bilm: a `BiLM`. Several `Elmo` may share one.
        num_mixes: int >= 1. Number of independent mixes of the same layers. Defaults to 1.
        dropout: float >= 0 and < 1. Dropout rate of the mixed vectors, in training only. Defaults
            to 0.5.
        layer_norm: bool. Whether each layer is normalized over the batch before the mix, an option
            of the original. The vectors of a sentence then depend on its batch. Defaults to False.
        l2: float >= 0. Strength of the penalty on the mixing weights. Defaults to 0.
        trainable_bilm: bool. Whether training updates the biLM: the value of `bilm.trainable`, for
            all layers that share the `bilm`. You can set the attribute `trainable_bilm` at any
            time; then compile the model again. Defaults to False.
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

    Example:
        >>> elmo = elmo_tf.Elmo.from_pretrained("small-en")
        >>> sentences = keras.Input((), dtype="string")
        >>> hidden = keras.layers.LSTM(8)(elmo(sentences))
        >>> model = keras.Model(sentences, keras.layers.Dense(2)(hidden))
        >>> tuple(model(tf.constant(["a good film", "a bad film"])).shape)
        (2, 2)

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
            raise TypeError(f"`bilm` must be a BiLM; see Elmo.from_pretrained. Received: {bilm!r}")
        if bilm.keep_boundaries:
            raise ValueError("An Elmo needs a `bilm` with keep_boundaries=False.")
        if num_mixes < 1:
            raise ValueError(f"`num_mixes` must be at least 1. Received: {num_mixes}")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be at least 0 and below 1. Received: {dropout}")
        if top_only and average:
            raise ValueError("Only one of `top_only` and `average` may be True.")
        self.num_mixes = num_mixes
        self.layer_norm = layer_norm
        self.l2 = l2
        self.top_only = top_only
        self.average = average
        self.bilm = bilm
        self.trainable_bilm = trainable_bilm
        shared = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.mixes = [
            ScalarMix(l2, layer_norm, average, name=f"mix_{index}", **shared)
            for index in range(num_mixes)
        ]
        with keras.name_scope(self.name):
            for mix in self.mixes:
                mix.build((None, 1 if top_only else self.num_layers, None, self.dim))
        set_attributes(self, "mixes", self.mixes)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        # Layer names must be unique within a model.
        self._mask_layer = TokenMask(name=f"{self.name}_mask")
        self._cut = CutToLengths(name=f"{self.name}_cut")
        # XLA does not support strings, which only TensorFlow has.
        self.supports_jit = keras.config.backend() != "tensorflow"
        self.built = self._mask_layer.built = self._cut.built = True

    @classmethod
    def from_pretrained(cls, path: Any, **kwargs) -> "Elmo":
        """Creates an `Elmo` from a checkpoint (see `load_bilm`); `kwargs` are those of `Elmo`."""
        from elmo_tf.checkpoints.load import load_bilm

        return cls(load_bilm(path), **kwargs)

    @tf.autograph.experimental.do_not_convert
    def preprocess(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Converts a batch of strings to integers, for `dataset.map(elmo.preprocess)`.

        A model that reads `keras.Input((None, ids), dtype="int32")` can be trained on several
        devices, to which Keras cannot distribute strings; and `cache()` of the dataset then saves
        the conversion.

        Returns:
            int32 (batch, token, id), see `BiLM.char_ids`; (batch, token) for a biLM without a
            character CNN. With `y`, a tuple `(x, y)` or `(x, y, sample_weight)`.
        """
        return keras.utils.pack_x_y_sample_weight(self.bilm.ids(x), y, sample_weight)

    @property
    def trainable_bilm(self) -> bool:
        """Whether training updates the biLM."""
        return self.bilm.trainable

    @trainable_bilm.setter
    def trainable_bilm(self, value: bool) -> None:
        self.bilm.trainable = value

    @property
    def num_layers(self) -> int:
        """The number of layers of the biLM, with the token layer."""
        return self.bilm.config.lstm.num_layers + 1

    @property
    def dim(self) -> int:
        """The width of the vectors."""
        return self.bilm.config.output_dim

    # A `Sequential` without an `Input` converts inputs to these dtypes; Keras' `TextVectorization`
    # overrides them too. The sublayers use `dtype_policy`.
    @property
    def compute_dtype(self) -> str:
        return "string"

    @property
    def variable_dtype(self) -> str:
        return "string"

    def __call__(self, inputs, lengths=None, **kwargs):
        tensor, row_lengths = checked_inputs(inputs, lengths)
        if lengths is not None:
            tensor = self._cut(tensor, row_lengths)
        # With lengths, the biLM does not take tokens that contain spaces for sentences.
        is_tokens = isinstance(tensor, tf.Tensor) and tensor.dtype == tf.string
        return super().__call__(tensor, lengths=row_lengths if is_tokens else None, **kwargs)

    def call(self, inputs, lengths=None, training=False):
        if training and not tf.executing_eagerly():
            from elmo_tf.compat import release_reductions

            release_reductions()
        outputs = self.bilm(inputs, lengths=lengths, training=training and self.trainable_bilm)
        return self.of_layers(outputs["layers"], outputs["mask"], training)

    def compute_mask(self, inputs, previous_mask=None):
        mask = self._mask_layer(inputs)
        return [mask] * self.num_mixes if self.num_mixes > 1 else mask

    def of_layers(self, layers: Any, mask: Any, training: bool = False) -> Any:
        """Computes the result of a call from the layers, zero at masked tokens, and the mask."""
        if not self.trainable_bilm:
            layers = ops.stop_gradient(layers)
        if self.top_only:
            layers = layers[:, -1:]
        mixed = [self.dropout(mix(layers, mask=mask), training=training) for mix in self.mixes]
        return mixed if self.num_mixes > 1 else mixed[0]

    def mixing_weights(self) -> MixingWeights | list[MixingWeights]:
        """Returns the learned mixing weights and the scale; a list if `num_mixes` is above 1."""
        mixes = [mix.mixing_weights() for mix in self.mixes]
        return mixes if self.num_mixes > 1 else mixes[0]

    def compute_output_spec(self, inputs, lengths=None, training=False):
        # Without this method, Keras traces `call` to find the shape of each symbolic output.
        shape = (*sentence_shape(inputs.shape), self.dim)
        outputs = [keras.KerasTensor(shape, self.dtype_policy.compute_dtype) for _ in self.mixes]
        return outputs if self.num_mixes > 1 else outputs[0]

    def compute_output_shape(self, input_shape):
        shape = (*sentence_shape(input_shape), self.dim)
        return [shape] * self.num_mixes if self.num_mixes > 1 else shape

    def get_config(self):
        return {
            **super().get_config(),
            # Not serialized: Keras then writes a biLM that several layers share only once.
            "bilm": self.bilm,
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
        bilm = config["bilm"]
        if isinstance(bilm, BiLM):  # of a layer that is cloned
            bilm = BiLM.from_config(bilm.get_config())
        else:
            bilm = keras.saving.deserialize_keras_object(bilm)
        return cls(**{**config, "bilm": bilm})


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenMask(keras.layers.Layer):
    """Computes the mask of the inputs of a biLM, bool (batch, token). True for real tokens.

    A layer, because the mask of symbolic strings must be the output of one.
    """

    @classmethod
    def from_config(cls, config):
        return cls()  # without the name: the loaded `Elmo` has a mask layer of that name

    def call(self, inputs):
        inputs = as_tensor(inputs)  # Keras does not convert ragged tensors
        return is_token(token_batch(inputs)[0] if inputs.dtype == tf.string else inputs)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(sentence_shape(inputs.shape), dtype="bool")


@keras.saving.register_keras_serializable(package="elmo_tf")
class CutToLengths(keras.layers.Layer):
    """Replaces the tokens after the real tokens of each row, int (batch,), by padding."""

    @classmethod
    def from_config(cls, config):
        return cls()  # see `TokenMask`

    def call(self, inputs, lengths):
        inputs, lengths = checked_inputs(inputs, lengths)
        real = ops.arange(ops.shape(inputs)[1], dtype="int32") < lengths[:, None]
        if inputs.dtype == tf.string:
            return tf.where(real, inputs, "")
        return ops.where(ops.expand_dims(real, 2) if len(inputs.shape) == 3 else real, inputs, 0)

    def compute_output_spec(self, inputs, lengths):
        shape = *sentence_shape(inputs.shape), *inputs.shape[2:]
        return keras.KerasTensor(shape, inputs.dtype)
