"""The signatures and outputs of an exported BiLM or Elmo."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

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

    `model(strings, training=False)` and all signatures return the same outputs:

    - `word_emb`: float (batch, token, projection_dim), the token encoder's vectors;
    - `lstm_outputs1` …: float (batch, token, output_dim), the layers of the biLM; output_dim is
      2 · projection_dim, or projection_dim for a forward language model;
    - `elmo`: the same shape, the mix of all layers;
    - `default`: float (batch, output_dim), the mean of `elmo` over the tokens of a sentence, zeros
      for an empty sentence;
    - `sequence_len`: int32 (batch,), the number of tokens of each sentence;
    - if an `Elmo` has several mixes, `elmo_1`, `default_1` … for the further ones. The signatures
      `mix_0`, `mix_1` … return one mix each, as `elmo` and `default`.

    Args:
        source: a `BiLM`, for a uniform mix, or an `Elmo`. Dropout is not exported.
        precision: "float32" or "bfloat16", of matrix products; None for that of the biLM. Outputs
            and weights are float32.
        free_characters: whether the signature `char_ids` accepts any number of character ids per
            token up to the biLM's `max_chars`, the same for all tokens of a request. By default it
            accepts exactly `max_chars`.
        tokenizer: has `split_with_offsets`, like the splitters of tensorflow-text; adds the
            signature `text` for raw text. It also returns `tokens`, string (batch, token) padded
            with `""`, and their byte offsets `starts` and `ends`, int64 (batch, token).

    Attributes:
        variables, trainable_variables, regularization_losses: the reusable SavedModel interface.
        bilm, mixes: the exported layers, in the precision of the export.
        top_only: whether the mixes only scale the top layer.
        signatures: the functions by signature name.

    Raises:
        TypeError: `source` is neither a `BiLM` nor an `Elmo`, or `tokenizer` is not a splitter.
        ValueError: the precision is unknown, or the biLM is stateful or keeps the boundaries.

    Source: the interface of the ELMo module for TensorFlow Hub.
    """

    def __init__(
        self,
        source: Any,
        precision: str | None = None,
        free_characters: bool = False,
        tokenizer: Any = None,
    ):
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
        if bilm.lookup_table is not None:
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
        for training in (False, True):
            self.__call__.get_concrete_function(SENTENCES, training=training)
        self._add_signatures(free_characters)

    @tf.function(autograph=False)
    def __call__(self, strings: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns the outputs for sentences, string (batch,), split like `str.split()`."""
        return self.of_tokens(*token_batch(strings, None))

    @tf.function(input_signature=[SENTENCES], autograph=False)
    def of_sentences(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signatures `default` and `serving_default`."""
        return self.of_tokens(*token_batch(strings, None))

    @tf.function(input_signature=[TOKENS, SEQUENCE_LEN], autograph=False)
    def of_tokens(self, tokens: tf.Tensor, sequence_len: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature `tokens`. Elements beyond the length of a sentence are ignored."""
        return self._outputs(tokens, sequence_len)

    def _add_signatures(self, free_characters: bool) -> None:
        self.signatures.update(
            default=self.of_sentences,
            serving_default=self.of_sentences,
            tokens=self.of_tokens,
        )
        if self.bilm.config.char_cnn is not None:
            width = self.bilm.char_ids("").shape[-1]
            self.signatures["char_ids"] = self._of_char_ids(None if free_characters else width)
        if len(self.mixes) > 1:
            for index in range(len(self.mixes)):
                self.signatures[f"mix_{index}"] = self._of_mix(index)
        if self._tokenizer is not None:
            self.signatures["text"] = self._of_text()

    def _of_char_ids(self, width: int | None) -> Any:
        spec = tf.TensorSpec((None, None, width), tf.int32, name="char_ids")

        @tf.function(input_signature=[spec], autograph=False)
        def of_char_ids(char_ids):
            # Servers that batch requests pad with copies of the first id; tokens have distinct ids.
            is_padding = tf.reduce_all(char_ids == char_ids[..., :1], axis=-1)  # (batch, token)
            real = is_token(char_ids) & ~is_padding
            return self._outputs(char_ids, row_lengths(real, None))

        return of_char_ids

    def _of_mix(self, index: int) -> Any:
        @tf.function(input_signature=[SENTENCES], autograph=False)
        def of_mix(strings):
            outputs = self.of_sentences(strings)
            mixes = [
                {name: outputs.pop(_of_index(name, other)) for name in ("elmo", "default")}
                for other in range(len(self.mixes))
            ]
            return {**outputs, **mixes[index]}

        return of_mix

    def _of_text(self) -> Any:
        @tf.function(input_signature=[SENTENCES], autograph=False)
        def of_text(strings):
            tokens, starts, ends = self._tokenizer.split_with_offsets(strings)
            lengths = tf.cast(tokens.row_lengths(), tf.int32)
            padded = with_a_token(tokens.to_tensor(""))
            offsets = {"starts": starts.to_tensor(), "ends": ends.to_tensor()}
            offsets = {name: with_a_token(offset) for name, offset in offsets.items()}
            outputs = self.of_tokens(padded, lengths)
            return {**outputs, "tokens": padded, **offsets}

        return of_text

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
    """`elmo`, `default` … of `Exported`, from the layers of a biLM and their mask."""
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
        if not source.built:
            source.build()
        bilm, learned, top_only = source.bilm, source.mixes, source.top_only
    else:
        raise TypeError(
            f"A BiLM or an Elmo can be exported. Received: {source!r} "
            f"(of type {type(source).__name__})."
        )
    refuse_adapted(bilm)
    if bilm.stateful:
        raise ValueError(
            "A stateful biLM cannot be exported: a server would mix up the texts of its clients. "
            "Load it with stateful=False."
        )
    if bilm.keep_boundaries:
        raise ValueError(
            "A biLM that keeps the boundaries cannot be exported: `sequence_len` does not count "
            "them. Load it with keep_boundaries=False."
        )
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
        """Splits text; the interface of the splitters of tensorflow-text.

        Args:
            text: string (batch,).

        Returns:
            The tokens and their start and end offsets in bytes, (batch, token) each.
        """
        import tensorflow_text

        return tensorflow_text.regex_split_with_offsets(
            text, rf"{WHITESPACE}|{_PUNCTUATION}", _PUNCTUATION
        )
