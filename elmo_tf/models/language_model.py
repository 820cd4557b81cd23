"""BiLM + SampledSoftmax: the probability of running text, in each direction."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_rows import window_rows
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.text.windows import target_ids


class LanguageModel:
    """Predicts the next token of each direction, from a biLM's top layer.

    All directions share the softmax, as in the original.

    Args:
        bilm: a `BiLM`.
        softmax: a `SampledSoftmax` over the vocabulary; if `bilm.config.tie_softmax`, the
            `TiedSoftmax` of `bilm.token_encoder`.
        vocabulary: a `Vocabulary`; that of `bilm` if it looks its tokens up.

    Raises:
        ValueError: the parts do not belong together.

    Source: Peters et al. 2018, section 3.1.
    """

    def __init__(self, bilm: BiLM, softmax: SampledSoftmax, vocabulary: Vocabulary):
        _check_parts(bilm, softmax, vocabulary)
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary
        if not softmax.built:
            softmax.build((None, bilm.config.lstm.projection_dim))

    @classmethod
    def create(
        cls, config: BiLMConfig, vocabulary: Vocabulary, num_sampled: int
    ) -> "LanguageModel":
        """A language model that has learnt nothing yet.

        Args:
            config: of the biLM, which is named "bilm".
            vocabulary: what the softmax, named "softmax", predicts, and what the biLM looks tokens
                up in if `config.char_cnn` is None.
            num_sampled: see `SampledSoftmax`.

        Raises:
            ValueError: `config` has an embedding table of another size than the vocabulary.
        """
        if config.char_cnn is None and config.num_tokens != len(vocabulary):
            raise ValueError(
                f"`num_tokens` must be that of the vocabulary, {len(vocabulary)}, if tokens come "
                f"from an embedding table. Received: {config.num_tokens}"
            )
        looked_up = vocabulary if config.char_cnn is None else None
        bilm = BiLM(config, vocabulary=looked_up, name="bilm")
        if config.tie_softmax:
            softmax = TiedSoftmax(bilm.token_encoder, num_sampled, name="softmax")
        else:
            softmax = SampledSoftmax(len(vocabulary), num_sampled, name="softmax")
        return cls(bilm, softmax, vocabulary)

    @property
    def weights(self) -> list[keras.Variable]:
        """The biLM's weights, then those of the softmax; what they share comes once."""
        return _each_once([*self.bilm.weights, *self.softmax.weights])

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        """The weights that training changes, in the same order."""
        return _each_once([*self.bilm.trainable_weights, *self.softmax.trainable_weights])

    def top_layer_outputs(
        self,
        inputs: tf.Tensor,
        states: Any,
        dropout_fn: Callable | None = None,
        training: bool = False,
    ) -> tuple[list[tf.Tensor], list]:
        """The top layer of each direction over one window.

        Args:
            inputs: string (direction, row, token), see `lm_windows`. Of a biLM that reads forward
                alone, the other direction is passed over.
            states: as `BiLM.zero_states` or the last call returned them.
            dropout_fn: applied to the input of every LSTM layer and to the last output, or None.
            training: bool. Whether gradients will be taken.

        Returns:
            For each direction float (row, token, projection_dim); and the new states.
        """
        inputs = inputs[: self.bilm.config.num_directions]
        distinct, index = window_rows(inputs)
        vectors = tf.gather(self.bilm.encode_rows(distinct), index)  # (direction, row, token, …)
        num_directions = len(self.bilm.lstm_stacks)
        layers, states = self.bilm.read(
            tf.unstack(vectors), [None] * num_directions, states, dropout_fn, training
        )
        outputs = [one[-1] for one in layers]
        return outputs if dropout_fn is None else [*map(dropout_fn, outputs)], states

    def targets(self, targets: tf.Tensor) -> list[tf.Tensor]:
        """Ids of a window's targets: for each direction int32 (row · token,)."""
        num_directions = self.bilm.config.num_directions
        ids = target_ids(self.vocabulary, targets[:num_directions])
        return tf.unstack(tf.reshape(ids, (num_directions, -1)))


def _check_parts(bilm: BiLM, softmax: SampledSoftmax, vocabulary: Vocabulary) -> None:
    if bilm.config.char_cnn is None and bilm.vocabulary != vocabulary:
        raise ValueError(
            "`vocabulary` must be that in which the biLM looks its tokens up. "
            f"Received: {vocabulary!r}, and a biLM with {bilm.vocabulary!r}"
        )
    if bilm.config.tie_softmax and getattr(softmax, "embedding", None) is not bilm.token_encoder:
        raise ValueError(
            "`softmax` must share the biLM's embedding table, as its configuration says: "
            f"TiedSoftmax(bilm.token_encoder). Received: {softmax!r}"
        )


def _each_once(weights: list[keras.Variable]) -> list[keras.Variable]:
    return list({id(weight): weight for weight in weights}.values())
