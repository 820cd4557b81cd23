"""BiLM or Elmo ─► what an exported model can be asked: its signatures and their outputs."""

from typing import Any

import tensorflow as tf

from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.text.inputs import is_token, row_lengths, token_batch

SENTENCES = tf.TensorSpec((None,), tf.string, name="strings")
TOKENS = tf.TensorSpec((None, None), tf.string, name="tokens")
SEQUENCE_LEN = tf.TensorSpec((None,), tf.int32, name="sequence_len")


class Exported(tf.train.Checkpoint):
    """A biLM with a mix, as TensorFlow saves it: functions and their variables, nothing of Keras.

    `model(strings, training=False)` and all signatures give the same outputs:

    - `word_emb`: float (batch, token, projection_dim), the tokens' own vectors;
    - `lstm_outputs1` …: float (batch, token, output_dim), the layers of the biLM, as wide as all
      its directions (2 · projection_dim, or projection_dim of the forward one alone);
    - `elmo`: the same shape, the mix of all layers;
    - `default`: float (batch, output_dim), the mean of `elmo` over a sentence's tokens,
      zeros for an empty sentence;
    - `sequence_len`: int32 (batch,), the tokens of each sentence.

    Args:
        source: a `BiLM`, for a uniform mix, or an `Elmo` with one mix. No dropout is exported.

    Attributes:
        variables, trainable_variables, regularization_losses: as the interface of reusable
            SavedModels wants them.

    Raises:
        TypeError: `source` is neither.
        ValueError: the biLM is stateful or keeps the boundaries, or the `Elmo` has several mixes.

    Source: the interface of the ELMo module for TensorFlow Hub.
    """

    def __init__(self, source: Any):
        super().__init__()
        bilm, mix, l2, top_only = _parts(source)
        # Held where tracking does not look: saving a Keras object makes second copies of weights.
        self._parts = _Untracked(bilm, mix, top_only)
        weights = [*bilm.weights, *mix.weights]
        self.variables = [weight.value for weight in weights]
        self.trainable_variables = [weight.value for weight in weights if weight.trainable]
        self.regularization_losses = []
        if l2:
            self.regularization_losses = [
                tf.function(lambda: l2 * tf.reduce_sum(mix.layer_weights.value**2), [])
            ]
        if bilm.vocabulary is not None:
            self.vocabulary = bilm.vocabulary.table
        for training in (False, True):
            self.__call__.get_concrete_function(SENTENCES, training=training)

    @tf.function
    def __call__(self, strings: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Outputs for whole sentences, string (batch,), split where `str.split()` would."""
        return self.of_tokens(*token_batch(strings, None))

    @tf.function(input_signature=[SENTENCES])
    def of_sentences(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signatures `default` and `serving_default`."""
        return self(strings, training=False)

    @tf.function(input_signature=[TOKENS, SEQUENCE_LEN])
    def of_tokens(self, tokens: tf.Tensor, sequence_len: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokens`. What stands behind a sentence's length is ignored."""
        lengths = row_lengths(is_token(tokens), sequence_len)
        return self._outputs(tokens, lengths)

    @tf.function
    def of_char_ids(self, char_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `char_ids`: int32 (batch, token, char), see `elmo_tf.char_ids`."""
        lengths = row_lengths(is_token(char_ids), None)
        return self._outputs(char_ids, lengths)

    def signatures(self) -> dict[str, Any]:
        """The functions by the names under which they are saved."""
        signatures = {
            "default": self.of_sentences,
            "serving_default": self.of_sentences,
            "tokens": self.of_tokens,
        }
        char_cnn = self._parts.bilm.config.char_cnn
        if char_cnn is not None:
            spec = tf.TensorSpec((None, None, char_cnn.max_chars), tf.int32, name="char_ids")
            signatures["char_ids"] = self.of_char_ids.get_concrete_function(spec)
        return signatures

    def _outputs(self, inputs: tf.Tensor, lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        bilm, mix, top_only = self._parts.bilm, self._parts.mix, self._parts.top_only
        outputs = bilm(inputs, lengths=lengths)
        layers, mask = outputs["layers"], outputs["mask"]  # (batch, layer, token, feature)
        elmo = mix(layers[:, -1:] if top_only else layers, mask=mask)
        # Every padded position of the mix is zero, so the sum is over real tokens.
        count = tf.cast(tf.maximum(lengths, 1), elmo.dtype)[:, tf.newaxis]
        num_layers = bilm.config.lstm.num_layers
        return {
            "word_emb": layers[:, 0, :, : bilm.config.lstm.projection_dim],
            **{f"lstm_outputs{j}": layers[:, j] for j in range(1, num_layers + 1)},
            "elmo": elmo,
            "default": tf.reduce_sum(elmo, axis=1) / count,
            "sequence_len": tf.identity(lengths),
        }


class _Untracked:
    """Hides Keras objects from TensorFlow's tracking of attributes."""

    def __init__(self, bilm: BiLM, mix: ScalarMix, top_only: bool):
        self.bilm = bilm
        self.mix = mix
        self.top_only = top_only


def _parts(source: Any) -> tuple[BiLM, ScalarMix, float, bool]:
    """The biLM, a mix of the export's own, its penalty, and whether it is of the top layer."""
    if isinstance(source, BiLM):
        bilm, learnt, top_only = source, None, False
    elif isinstance(source, Elmo):
        if source.num_mixes > 1:
            raise ValueError(
                f"An Elmo with one mix can be exported. Received: num_mixes={source.num_mixes}"
            )
        if not source.built:
            source.build()
        bilm, learnt, top_only = source.bilm, source.mixes[0], source.top_only
    else:
        raise TypeError(
            f"A BiLM or an Elmo can be exported. Received: {source!r} "
            f"(of type {type(source).__name__})."
        )
    if bilm.compute_dtype != "float32":
        raise ValueError(
            f"A biLM that computes in float32 can be exported. Received: {bilm.compute_dtype}"
        )
    if bilm.stateful:
        raise ValueError(
            "A stateful biLM cannot be exported: a server would mix up the texts of all who ask. "
            "Load it with stateful=False."
        )
    if bilm.keep_boundaries:
        raise ValueError(
            "A biLM that keeps the boundaries cannot be exported: `sequence_len` counts tokens "
            "alone. Load it with keep_boundaries=False."
        )
    mix = ScalarMix(layer_norm=bool(learnt and learnt.layer_norm), name="aggregation")
    mix.build((None, 1 if top_only else bilm.config.lstm.num_layers + 1, None, None))
    if learnt is not None:
        mix.set_weights(learnt.get_weights())
    return bilm, mix, learnt.l2 if learnt else 0.0, top_only
