"""BiLM + SampledSoftmax: the probability of running text, in both directions."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_rows import BOS_ROW, EOS_ROW, FIRST_ROW
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.text.windows import boundary_or, target_ids

_TOKENS_ROUNDED_TO = 64


class LanguageModel:
    """Predicts the next token of each direction, from a biLM's top layer.

    Both directions share the softmax, as in the original.

    Args:
        bilm: a `BiLM`.
        softmax: a `SampledSoftmax` over the vocabulary.
        vocabulary: a `Vocabulary`.

    Source: Peters et al. 2018, section 3.1.
    """

    def __init__(self, bilm: BiLM, softmax: SampledSoftmax, vocabulary: Vocabulary):
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary
        if not softmax.built:
            softmax.build((None, bilm.config.lstm.projection_dim))

    @property
    def weights(self) -> list[keras.Variable]:
        """The biLM's weights, then those of the softmax."""
        return [*self.bilm.weights, *self.softmax.weights]

    def zero_states(self, num_lanes: int) -> list:
        """States of a text's beginning: for each direction, for each layer, `[h, c]`."""
        lstm = self.bilm.config.lstm
        return [
            [
                [tf.zeros((num_lanes, size), self.bilm.compute_dtype) for size in lstm.state_sizes]
                for _ in range(lstm.num_layers)
            ]
            for _ in range(2)
        ]

    def tops(
        self,
        inputs: tf.Tensor,
        states: Any,
        dropout_fn: Callable | None = None,
        training: bool = False,
    ) -> tuple[list[tf.Tensor], list]:
        """The top layer of both directions over one window.

        Args:
            inputs: string (direction, lane, token), see `lm_windows`.
            states: as `zero_states` or the last call gave them.
            dropout_fn: applied to the input of every LSTM layer and to the last output, or None.
            training: bool. Whether gradients will be taken.

        Returns:
            For each direction float (lane, token, projection_dim); and the new states.
        """
        distinct, index = tf.unique(tf.reshape(inputs, (-1,)))
        # Few distinct sizes: kernels are prepared for every shape that comes.
        distinct = tf.pad(distinct, [[0, -tf.size(distinct) % _TOKENS_ROUNDED_TO]])
        index = tf.reshape(index, tf.shape(inputs))
        index = boundary_or(inputs, BOS_ROW, EOS_ROW, index + FIRST_ROW)
        index = tf.ensure_shape(index, inputs.shape)
        vectors = tf.gather(self.bilm.encode_rows(distinct), index)  # (direction, lane, token, …)
        tops, new_states = [], []
        stacks = (self.bilm.forward_lstm, self.bilm.backward_lstm)
        for stack, direction, state in zip(stacks, tf.unstack(vectors), states, strict=True):
            layers, state = stack(
                direction, initial_states=state, dropout_fn=dropout_fn, training=training
            )
            tops.append(layers[-1] if dropout_fn is None else dropout_fn(layers[-1]))
            new_states.append(state)
        return tops, new_states

    def targets(self, targets: tf.Tensor) -> list[tf.Tensor]:
        """Ids of a window's targets: for each direction int32 (lane · token,)."""
        return tf.unstack(tf.reshape(target_ids(self.vocabulary, targets), (2, -1)))
