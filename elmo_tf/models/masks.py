"""The mask of sentences, for the Keras layers above a biLM."""

import keras
import tensorflow as tf

from elmo_tf.text.inputs import as_tensor, checked_inputs, is_token, sentence_shape, token_batch


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenMask(keras.layers.Layer):
    """Computes the mask of the inputs of a biLM, bool (batch, token). True for real tokens.

    A layer, because the mask of symbolic strings must be the output of one.
    """

    def call(self, inputs, lengths=None):  # `lengths` in files of version 0.3
        inputs = as_tensor(inputs)  # Keras does not convert ragged tensors
        if inputs.dtype == tf.string:
            inputs, lengths = token_batch(inputs, lengths)
        if lengths is None:
            return is_token(inputs)
        return tf.sequence_mask(lengths, tf.shape(inputs)[1])

    def compute_output_spec(self, inputs, lengths=None):
        return keras.KerasTensor(sentence_shape(inputs.shape), dtype="bool")


@keras.saving.register_keras_serializable(package="elmo_tf")
class CutToLengths(keras.layers.Layer):
    """Replaces the tokens after the real tokens of each row, int (batch,), by padding."""

    def call(self, inputs, lengths):
        inputs, lengths = checked_inputs(inputs, lengths)
        real = tf.sequence_mask(lengths, tf.shape(inputs)[1])
        if len(inputs.shape) == 3:  # char ids
            real = real[..., tf.newaxis]
        return tf.where(real, inputs, tf.zeros_like(inputs))  # "" for strings

    def compute_output_spec(self, inputs, lengths):
        shape = *sentence_shape(inputs.shape), *inputs.shape[2:]
        return keras.KerasTensor(shape, inputs.dtype)
