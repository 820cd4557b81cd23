"""BiLM + SampledSoftmax: the probability of running text, in each direction."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_ids import distinct_window_tokens
from elmo_tf.portability import require_tensorflow
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.text.windows import target_ids


class LanguageModel:
    """Predicts the next token in each direction from the top layer of a biLM.

    Both directions share the softmax, as in the original.

    Args:
        bilm: a `BiLM`.
        softmax: a `SampledSoftmax` over the vocabulary, or, if `bilm.config.tie_softmax`, the
            `TiedSoftmax` of `bilm.token_encoder`.
        vocabulary: a `Vocabulary`; without a character CNN, the vocabulary of `bilm`.

    Source: Peters et al. 2018, section 3.1.
    """

    def __init__(self, bilm: BiLM, softmax: SampledSoftmax, vocabulary: Vocabulary):
        require_tensorflow("A LanguageModel")
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary
        if not softmax.built:
            softmax.build((None, bilm.config.lstm.projection_dim))

    @classmethod
    def create(
        cls,
        config: BiLMConfig,
        vocabulary: Vocabulary,
        num_sampled: int,
        lexicon: Lexicon | None = None,
        dtype: str | None = None,
    ) -> "LanguageModel":
        """Creates a randomly initialized language model; its parts are named "bilm" and "softmax".

        `vocabulary` has the tokens to predict, and the input tokens if `config.char_cnn` is None.
        For the other arguments and the errors, see `BiLM` and `SampledSoftmax`.
        """
        words = vocabulary if config.char_cnn is None else None
        bilm = BiLM(config, vocabulary=words, lexicon=lexicon, name="bilm", dtype=dtype)
        if config.tie_softmax:
            softmax = TiedSoftmax(bilm.token_encoder, num_sampled, name="softmax", dtype=dtype)
        else:
            softmax = SampledSoftmax(len(vocabulary), num_sampled, name="softmax", dtype=dtype)
        return cls(bilm, softmax, vocabulary)

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of the biLM, then those of the softmax; a tied table appears once."""
        weights = [*self.bilm.weights, *self.softmax.weights]
        return list({id(weight): weight for weight in weights}.values())

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        """The trainable weights, in the same order."""
        return [weight for weight in self.weights if weight.trainable]

    def top_layer_outputs(
        self,
        inputs: tf.Tensor,
        states: Any,
        dropout_fn: Callable | None = None,
        training: bool = False,
    ) -> tuple[list[tf.Tensor], list]:
        """Computes the top layer of each direction for one window.

        `inputs` are those of `LMWindows`, string (direction, row, token); a forward language model
        ignores the backward direction. `states` are those of `BiLM.zero_states` or the previous
        call. `dropout_fn` is applied to the input of every LSTM layer and to the last output.

        Returns for each direction float (row, token, projection_dim); and the new states.
        """
        num_directions = self.bilm.config.num_directions
        inputs = inputs[:num_directions]
        distinct, index = distinct_window_tokens(inputs)
        vectors = tf.gather(self.bilm.encode_tokens(distinct), index)  # (direction, row, token, …)
        layers, states = self.bilm.read(
            tf.unstack(vectors), [None] * num_directions, states, dropout_fn, training
        )
        outputs = [outputs[-1] for outputs in layers]
        return outputs if dropout_fn is None else list(map(dropout_fn, outputs)), states

    def targets(self, targets: tf.Tensor) -> list[tf.Tensor]:
        """Returns the target ids of a window: for each direction int32 (row · token,)."""
        num_directions = self.bilm.config.num_directions
        ids = target_ids(self.vocabulary, targets[:num_directions])
        return tf.unstack(tf.reshape(ids, (num_directions, -1)))
