"""An exported model as a Keras layer."""

import os
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.models.elmo import CutToLengths, TokenMask
from elmo_tf.saved_models.exporting.export import versions_in
from elmo_tf.text.inputs import checked_inputs, sentence_shape, token_batch


def load(path: str | os.PathLike, trainable: bool = False) -> "ExportedElmo":
    """Loads an exported model as a Keras layer; for the arguments and errors, see `ExportedElmo`.

    Example:
        >>> layer = elmo_tf.saved_models.load("exported")
        >>> tuple(layer(["The bank of the river", "I like it"]).shape)
        (2, 5, 384)
    """
    return ExportedElmo(path, trainable=trainable)


@keras.saving.register_keras_serializable(package="elmo_tf")
class ExportedElmo(keras.layers.Layer):
    """A Keras layer that returns the `elmo` output of an exported model.

    A `.keras` file contains the path and the weights: loading it needs the exported model.

    Args:
        path: of one version (`directory/1`), or of the folder of all versions, for the newest.
        trainable: bool. Whether the weights are trained with the task. Defaults to False.

    Call arguments:
        inputs: sentences or tokens, eager or symbolic, see `BiLM`.
        lengths: int (batch,) or None. Real tokens of each row.
        training: bool.

    Returns:
        float (batch, token, output_dim), zero at masked tokens, with its mask.

    Raises:
        FileNotFoundError: there is no exported model.
        ValueError: the SavedModel was not exported by elmo_tf.
        TypeError: the inputs are not strings.
    """

    def __init__(self, path: str | os.PathLike, trainable: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.model_path = os.fspath(path)
        self.model = _load(Path(path))
        self.exported_weights = [  # Keras variables that share the memory of the model's
            keras.Variable(
                variable,
                dtype=variable.dtype,
                trainable=variable.trainable,
                name=variable.name.split(":")[0].replace("/", "_"),
            )
            for variable in self.model.variables
        ]
        self._dim = self.model.signatures["tokens"].structured_outputs["elmo"].shape[-1]
        # Layer names must be unique within a model.
        self._mask_layer = TokenMask(name=f"{self.name}_mask")
        self._cut = CutToLengths(name=f"{self.name}_cut")
        self.supports_jit = False  # XLA does not support strings
        self.built = True
        self.trainable = trainable  # as an argument, it would not freeze the weights

    compute_dtype = variable_dtype = property(lambda self: "string")  # see `Elmo`

    def __call__(self, inputs, lengths=None, **kwargs):
        inputs, row_lengths = checked_inputs(inputs, lengths)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype != "string":
            raise TypeError(
                "An exported model is a layer over sentences and tokens (strings). "
                f"Received: {dtype} of shape {tuple(inputs.shape)}."
            )
        if lengths is not None:
            inputs = self._cut(inputs, row_lengths)
        return super().__call__(inputs, **kwargs)

    def call(self, inputs, training=False):
        tokens, lengths = token_batch(inputs)
        vectors = self.model.signatures["tokens"](tokens=tokens, sequence_len=lengths)["elmo"]
        if not self.trainable:
            return tf.stop_gradient(vectors)
        for penalty in self.model.regularization_losses:
            self.add_loss(penalty())
        return vectors

    def compute_output_spec(self, inputs, training=False):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="float32")

    def compute_output_shape(self, input_shape):
        return (*sentence_shape(input_shape), self._dim)

    def compute_mask(self, inputs, previous_mask=None):
        return self._mask_layer(inputs)

    def get_config(self):
        return {**super().get_config(), "path": self.model_path}


def _load(path: Path) -> Any:
    versions = {-1: path} if (path / "saved_model.pb").is_file() else versions_in(path)
    if not versions:
        raise FileNotFoundError(
            f"There is no exported model in {path}: expected saved_model.pb, or numbered folders "
            "that contain it."
        )
    version = versions[max(versions)]
    try:
        model = tf.saved_model.load(os.fspath(version))
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(f"Cannot load {version}: {error}") from None
    found = [getattr(model, "signatures", {}).get(name) for name in ("serving_default", "tokens")]
    is_elmo = all(each is not None and "elmo" in each.structured_outputs for each in found)
    if not (is_elmo and hasattr(model, "trainable_variables")):
        raise ValueError(
            f"{version} is a SavedModel of another kind: it needs the signatures serving_default "
            "and tokens with an output elmo, and the list trainable_variables."
        )
    return model
