"""The signatures and outputs of an exported BiLM or Elmo."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # also registers its operations, which exports with raw text need

from elmo_tf.layers.scalar_mix import ScalarMix, masked_mean
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import copied_bilm, refuse_adapted
from elmo_tf.models.elmo import Elmo
from elmo_tf.processors import PRECISIONS
from elmo_tf.text.inputs import (
    WHITESPACE,
    checked_inputs,
    is_token,
    row_lengths,
    token_batch,
    with_a_token,
)

SENTENCES = tf.TensorSpec((None,), tf.string, name="strings")
TOKENS = tf.TensorSpec((None, None), tf.string, name="tokens")
SEQUENCE_LEN = tf.TensorSpec((None,), tf.int32, name="sequence_len")
# Unicode's punctuation and symbols.
_PUNCTUATION = r"[\pP\pS]"


class Exported(tf.train.Checkpoint):
    """A biLM with its mixes, as functions and raw variables that TensorFlow can save.

    `model(strings, training=False)` and all signatures return the same outputs, see `export`, which
    also explains the arguments and the errors. `variables`, `trainable_variables` and
    `regularization_losses` are the reusable SavedModel interface; `signatures` are functions.
    """

    def __init__(self, source: Any, precision: str | None = None, tokenizer: Any = None):
        super().__init__()
        if tokenizer is not None and not hasattr(tokenizer, "split_with_offsets"):
            raise TypeError(
                "`tokenizer` must have a method split_with_offsets, like PunctuationSplitter and "
                f"the splitters of tensorflow-text. Received: {tokenizer!r}"
            )
        bilm, mixes, top_only = parts_of(source, precision)
        weights = [*bilm.weights, *(weight for mix in mixes for weight in mix.weights)]
        self.variables = [weight.value for weight in weights]
        # Of TensorFlow's variables: an `Elmo` freezes the Keras variables of its biLM.
        self.trainable_variables = [each for each in self.variables if each.trainable]
        self.regularization_losses = [_penalty(mix) for mix in mixes if mix.l2]
        self.lookup_table = bilm.lookup_table
        # One graph, which all signatures share.
        of_vectors = tf.function(
            self._outputs_of_vectors,
            [
                tf.TensorSpec((None, None, bilm.config.lstm.projection_dim), bilm.compute_dtype),
                tf.TensorSpec((None, None), tf.bool),
            ],
            autograph=False,
        )
        # Not by assignment: TensorFlow would track and save Keras weights a second time.
        parts = {"bilm": bilm, "mixes": mixes, "top_only": top_only, "signatures": {}}
        vars(self).update(parts, _of_vectors=of_vectors, _tokenizer=tokenizer)
        self.__call__.get_concrete_function(SENTENCES, training=True)
        of_sentences = self.__call__.get_concrete_function(SENTENCES, training=False)
        self.signatures.update(default=of_sentences, serving_default=of_sentences)
        self.signatures["tokens"] = self.of_tokens
        if bilm.config.char_cnn is not None:
            spec = tf.TensorSpec((None, None, None), tf.int32, name="char_ids")
            self.signatures["char_ids"] = tf.function(self._of_char_ids, [spec], autograph=False)
        if tokenizer is not None:
            self.signatures["text"] = tf.function(self._of_text, [SENTENCES], autograph=False)

    @tf.function(autograph=False)
    def __call__(self, strings: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns the outputs for sentences, string (batch,), split like `str.split()`."""
        return self.of_tokens(*token_batch(strings, None))

    @tf.function(input_signature=[TOKENS, SEQUENCE_LEN], autograph=False)
    def of_tokens(self, tokens: tf.Tensor, sequence_len: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokens`. Elements beyond the length of a sentence are ignored."""
        return self._outputs(tokens, sequence_len)

    def _of_char_ids(self, char_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        # Servers that batch requests pad with copies of the first id; tokens have distinct ids.
        is_padding = tf.reduce_all(char_ids == char_ids[..., :1], axis=-1)  # (batch, token)
        real = is_token(char_ids) & ~is_padding
        return self._outputs(char_ids, row_lengths(real, None))

    def _of_text(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        parts = self._tokenizer.split_with_offsets(strings)
        tokens, starts, ends = (with_a_token(part.to_tensor()) for part in parts)
        outputs = self.of_tokens(tokens, tf.cast(parts[0].row_lengths(), tf.int32))
        return {**outputs, "tokens": tokens, "starts": starts, "ends": ends}

    def _outputs(self, inputs: tf.Tensor, lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs, lengths = checked_inputs(inputs, lengths)
        return self._of_vectors(*self.bilm.token_vectors(inputs, lengths))

    def _outputs_of_vectors(self, vectors, mask):
        def of_one():
            one = tf.ensure_shape(vectors, (1, None, vectors.shape[2]))
            return self._outputs_of_layers(**self.bilm.layers_of_sentence(one, mask))

        def of_batch():
            return self._outputs_of_layers(**self.bilm.layers_of_vectors(vectors, mask))

        return tf.cond(tf.shape(vectors)[0] == 1, of_one, of_batch)

    def _outputs_of_layers(self, layers, mask):
        layers = tf.cast(layers, tf.float32)  # (batch, layer, token, feature)
        lstm = self.bilm.config.lstm
        return {
            "word_emb": layers[:, 0, :, : lstm.projection_dim],
            **{f"lstm_outputs{j}": layers[:, j] for j in range(1, lstm.num_layers + 1)},
            "sequence_len": tf.reduce_sum(tf.cast(mask, tf.int32), axis=1),
            **mixed_outputs(layers, mask, self.mixes, self.top_only),
        }


def mixed_outputs(
    layers: tf.Tensor, mask: tf.Tensor, mixes: Sequence[ScalarMix], top_only: bool
) -> dict[str, tf.Tensor]:
    """`elmo`, `default` … from the layers of a biLM and their mask."""
    outputs = {}
    for index, mix in enumerate(mixes):
        elmo = mix(layers[:, -1:] if top_only else layers, mask=mask)
        outputs[_of_index("elmo", index)] = elmo
        outputs[_of_index("default", index)] = masked_mean(elmo, mask)
    return outputs


def _penalty(mix: ScalarMix) -> Any:
    return tf.function(lambda: mix.l2 * tf.reduce_sum(mix.layer_weights.value**2), [])


def _of_index(name: str, index: int) -> str:
    return f"{name}_{index}" if index else name


def parts_of(source: Any, precision: str | None) -> tuple[BiLM, list[ScalarMix], bool]:
    """Returns the biLM, copies of the mixes, and `top_only` of a `BiLM` or an `Elmo`."""
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(
            f"`precision` must be one of {', '.join(PRECISIONS)}. Received: {precision!r}"
        )
    if isinstance(source, BiLM):
        bilm, learned, top_only = source, [], False
    elif isinstance(source, Elmo):
        bilm, learned, top_only = source.bilm, source.mixes, source.top_only
    else:
        raise TypeError(
            f"A BiLM or an Elmo can be exported. Received: {source!r} "
            f"(of type {type(source).__name__})."
        )
    refuse_adapted(bilm)
    for option in ("stateful", "keep_boundaries"):
        if getattr(bilm, option):
            message = f"A biLM with {option}=True cannot be exported. Load it with {option}=False."
            raise ValueError(message)
    if precision not in (None, bilm.compute_dtype):
        bilm = copied_bilm(bilm, PRECISIONS[precision])
    num_layers = 1 if top_only else bilm.config.lstm.num_layers + 1
    mixes = []
    for index, mix in enumerate(learned or [ScalarMix()]):
        name = _of_index("aggregation", index)
        changes = {"name": name, "dtype": "float32", "trainable": True}
        copy = ScalarMix.from_config({**mix.get_config(), **changes})
        copy.build((None, num_layers, None, None))
        if learned:
            copy.set_weights(mix.get_weights())
        mixes.append(copy)
    return bilm, mixes, top_only


class PunctuationSplitter:
    """Splits at whitespace and around every punctuation mark and symbol.

    Case and accents are preserved. Needs tensorflow-text, both for export and for loading the
    exported model.
    """

    def split_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits string (batch,) into tokens; returns them, and their starts and ends in bytes."""
        return tensorflow_text.regex_split_with_offsets(
            text, rf"{WHITESPACE}|{_PUNCTUATION}", _PUNCTUATION
        )
