"""TokenEncoder ─► BiLM: the layers of a forward and a backward language model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.config import BiLMConfig
from elmo_tf.models import token_ids
from elmo_tf.models.carried_states import CarriedStates
from elmo_tf.models.lstm_stack import LSTMStack
from elmo_tf.models.token_encoder import TokenEmbedding, TokenEncoder
from elmo_tf.portability import is_portable, require_tensorflow
from elmo_tf.processors import refuse_fork
from elmo_tf.text.characters import string_tensor
from elmo_tf.text.inputs import checked_inputs, is_token, refuse_string, token_batch
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import Vocabulary


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLM(keras.Model):
    """A bidirectional language model that returns all its layers as contextual vectors.

    Layer 0 is the token vector, repeated for each direction: `[x; x]`. Layer `j` is
    `[forward_j; backward_j]`. Every sentence is read between the boundaries `<S>` and `</S>`, and
    the backward direction starts at the end of each sentence. Without `config.bidirectional`,
    layer 0 is `[x]` and layer `j` is `[forward_j]`.

    Args:
        config: a `BiLMConfig`.
        stateful: bool. Whether each batch row starts from the LSTM state that the previous batch
            left in that row, as in the original. The vectors of a sentence then depend on earlier
            calls. Defaults to False: every sentence starts from the same state.
        keep_boundaries: bool. Whether the outputs include `<S>` and `</S>`, two more tokens per
            sentence. Defaults to False.
        vocabulary: a `Vocabulary`, required for string inputs if `config.char_cnn` is None.
        lexicon: a `Lexicon`, required if `config.char_cnn.lexicon` is set.

    Call arguments:
        inputs: a list of sentences or a string tensor (batch,), split as by `str.split()`; a list
            of token lists, a ragged tensor, or a string tensor (batch, token) padded with `""`;
            char ids (batch, token, char), see `char_ids`, maybe of fewer chars than
            `config.char_cnn.max_chars`, and padded with 0; or, without a character CNN, token ids
            (batch, token) for `TokenEmbedding`.
        lengths: int (batch,) or None. Number of real tokens per row; later tokens are ignored.
            None counts them.
        training: bool. Whether gradients are needed. Affects speed only.

    Returns:
        dict of "layers", float (batch, L + 1, token, config.output_dim), zero at masked tokens, and
        "mask", bool (batch, token). The width is 2 · projection_dim, or projection_dim for a
        forward language model.

    Raises:
        TypeError: `inputs` is a single string or not text, or `lengths` are not integers.
        ValueError: a wrong number of axes, an empty token before a real token, `lengths` larger
            than the number of tokens, ids out of range, or char ids for a biLM without a character
            CNN (or token ids for a biLM with one).

    Example:
        >>> bilm = elmo_tf.BiLM(elmo_tf.BiLMConfig.preset("tiny"))
        >>> outputs = bilm(["The bank of the river", "I like it"])
        >>> tuple(outputs["layers"].shape), tuple(outputs["mask"].shape)
        ((2, 3, 5, 64), (2, 5))

    Source: Peters et al. 2018, sections 3.1 and 3.4.
    """

    def __init__(
        self,
        config: BiLMConfig,
        stateful: bool = False,
        keep_boundaries: bool = False,
        vocabulary: Vocabulary | None = None,
        lexicon: Lexicon | None = None,
        **kwargs,
    ):
        refuse_fork()
        super().__init__(**kwargs)
        if not isinstance(config, BiLMConfig):
            raise TypeError(f"`config` must be a BiLMConfig. Received: {config!r}")
        self._ids = token_ids.ids_of_config(config, vocabulary, lexicon)
        self.config = config
        self.stateful = stateful
        self.keep_boundaries = keep_boundaries
        self.source: str | None = None  # the path or name that `load_bilm` read
        self.vocabulary = vocabulary
        self.lexicon = lexicon
        # Finds the ids of tokens. An attribute, so that TensorFlow saves it with the biLM.
        known = vocabulary or lexicon
        self.lookup_table = None if known is None else known.table
        self.supports_jit = keras.config.backend() != "tensorflow"  # see `Elmo`
        lstm, cnn = config.lstm, config.char_cnn
        dim, policy = lstm.projection_dim, self.dtype_policy
        if cnn is not None:
            self.token_encoder = TokenEncoder(cnn, dim, dtype=policy, name="token_encoder")
        else:
            self.token_encoder = TokenEmbedding(
                config.num_tokens, dim, dtype=policy, name="token_embedding"
            )
        self.forward_lstm = LSTMStack(lstm, dtype=policy, name="forward_lstm")
        self.backward_lstm = None
        if config.bidirectional:
            self.backward_lstm = LSTMStack(lstm, dtype=policy, name="backward_lstm")
        vars(self)["_graph"] = {}  # not tracked by Keras
        self._carried = None
        if stateful:
            require_tensorflow("`stateful`")
            self._carried = CarriedStates(config, self.compute_dtype)
        # The weights do not depend on the input shape, and checkpoints are loaded into them.
        self.build((None, None))

    @property
    def lstm_stacks(self) -> tuple[LSTMStack, ...]:
        """The LSTMs of each direction: forward, then backward if `config.bidirectional`."""
        return (self.forward_lstm, self.backward_lstm)[: self.config.num_directions]

    def build(self, input_shape):
        lstm, width = self.config.lstm, self._ids.width
        self.token_encoder.build((None,) if width is None else (None, width))
        for stack in self.lstm_stacks:
            stack.build((None, None, lstm.projection_dim))
        # [h; c] of every layer of each direction. Zeros until `warm_start`.
        self.initial_state = self.add_weight(
            name="initial_state",
            shape=(self.config.num_directions, lstm.num_layers, sum(lstm.state_sizes)),
            initializer="zeros",
            trainable=False,
        )
        self.built = True

    def __call__(self, inputs, lengths=None, training=False, **kwargs):
        # Checked here: Keras accepts no Python lists and wraps the errors that `call` raises.
        inputs, lengths = checked_inputs(inputs, lengths)
        return super().__call__(inputs, lengths=lengths, training=training, **kwargs)

    def call(self, inputs, lengths=None, training=False):
        is_one = inputs.dtype == tf.string and len(inputs.shape) == 2 and inputs.shape[0] == 1
        if is_one and not training and tf.executing_eagerly() and not is_portable():
            return self._graph_of_one()(inputs, lengths)
        return self.layers_of_vectors(*self.token_vectors(inputs, lengths), training)

    def token_vectors(self, inputs: Any, lengths: Any = None) -> tuple[Any, Any]:
        """Stage 1, tokens → token vectors, with the boundaries of each sentence.

        From the result of `checked_inputs`, returns float (batch, token + 2, projection_dim) and
        the mask, bool (batch, token + 2), which is True for real tokens and boundaries.
        """
        ids, index, lengths = token_ids.distinct_ids(inputs, lengths, self._ids)
        index, mask = token_ids.add_boundaries(index, lengths)
        return ops.take(self._encode(ids), index, axis=0), mask

    def _graph_of_one(self) -> Callable[..., dict[str, tf.Tensor]]:
        """A call for the tokens of one sentence. Its operations take longer to call than to run.

        Traced again if `quantize` or LoRA change the weights.
        """
        weights = tuple(map(id, self.weights))
        if self._graph.get("weights") != weights:
            signature = [tf.TensorSpec((1, None), tf.string), tf.TensorSpec((1,), tf.int32)]

            def run(tokens, lengths):
                return self.layers_of_sentence(*self.token_vectors(tokens, lengths))

            run = tf.function(run, signature, autograph=False)
            self._graph.update(weights=weights, run=run)
        return self._graph["run"]

    def layers_of_sentence(self, vectors: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """`layers_of_vectors` for a batch of one, whose LSTMs then need no masks."""
        end = tf.math.count_nonzero(mask, dtype=tf.int32)
        layers = self.layers_of_vectors(vectors[:, :end], None)["layers"]
        missing = tf.shape(mask)[1] - end
        return {
            "layers": tf.pad(layers, [[0, 0], [0, 0], [0, missing], [0, 0]]),
            "mask": mask if self.keep_boundaries else mask[:, 2:],
        }

    def _encode(self, ids: tf.Tensor) -> tf.Tensor:
        vectors = self.token_encoder(self._ids.after_boundaries(ids))  # (2 + token, feature)
        return ops.concatenate([ops.zeros_like(vectors[:1]), vectors], axis=0)

    def layers_of_vectors(self, vectors: Any, mask: Any, training: bool = False) -> dict[str, Any]:
        """Computes the result of a call from the result of `token_vectors`.

        Without a `mask`, all tokens are real.
        """
        states = self.initial_states(ops.shape(vectors)[0])
        if self._carried is not None:
            states = self._carried.read(states)
        directions, states = self._read_sentences(vectors, mask, states, training)
        if self._carried is not None:
            self._carried.write(states)
        layers = [[vectors] * len(directions), *zip(*directions, strict=True)]
        layers = [ops.concatenate(layer, axis=-1) for layer in layers]
        layers = ops.stack(layers, axis=1)  # (batch, layer, token + 2, feature)
        if not self.keep_boundaries:
            layers, mask = layers[:, :, 1:-1], None if mask is None else mask[:, 2:]
        if mask is not None:
            layers = ops.where(ops.expand_dims(mask, (1, 3)), layers, ops.zeros_like(layers))
        return {"layers": layers, "mask": mask}

    def _read_sentences(self, vectors, mask, states, training=False):
        """Runs `read` on sentences and returns the layers in text order.

        The padding of reversed rows comes first; it is masked and leaves the state unchanged.
        """
        count = self.config.num_directions
        (forward, *backward), states = self.read(
            [vectors, ops.flip(vectors, axis=1)][:count],
            [mask, None if mask is None else ops.flip(mask, axis=1)][:count],
            states,
            training=training,
        )
        return [forward, *([ops.flip(layer, axis=1) for layer in b] for b in backward)], states

    def read(
        self,
        vectors: Sequence[Any],
        masks: Sequence[Any],
        states: Sequence[Any],
        dropout_fn: Callable[[Any], Any] | None = None,
        training: bool = False,
    ) -> tuple[list[list[Any]], list[Any]]:
        """Stage 2, (token vectors, masks, states) → (layers, states), separately per direction.

        Args:
            vectors: for each direction float (batch, token, projection_dim), in reading order.
            masks: for each direction bool (batch, token), or None. A masked token at any position
                leaves the state unchanged.
            states: see `initial_states`.
            dropout_fn: applied to the input of every LSTM layer, or None.
            training: see the call.

        Returns:
            For each direction the outputs of its layers, as `vectors`; and the new states.
        """
        layers, new_states = [], []
        directions = zip(self.lstm_stacks, vectors, masks, states, strict=True)
        for stack, direction, mask, state in directions:
            outputs, state = stack(
                direction, mask=mask, initial_states=state, dropout_fn=dropout_fn, training=training
            )
            layers.append(outputs)
            new_states.append(state)
        return layers, new_states

    def initial_states(self, batch_size: Any) -> list[list[list[Any]]]:
        """Initial states of a batch: for each direction, for each layer, `[h, c]`."""
        state = ops.cast(self.initial_state, self.compute_dtype)
        state = ops.broadcast_to(state[:, :, None], (*state.shape[:2], batch_size, state.shape[2]))
        width = self.config.lstm.projection_dim
        return [
            [[layer[:, :width], layer[:, width:]] for layer in ops.unstack(stack)]
            for stack in ops.unstack(state)
        ]

    def zero_states(self, batch_size: Any) -> list[list[list[Any]]]:
        """Zero states: for each direction, for each layer, `[h, c]`."""
        return keras.tree.map_structure(ops.zeros_like, self.initial_states(batch_size))

    def boundary_states(self, boundaries: Any) -> list[Any]:
        """The states of one row after the boundary before it; see `boundary_embeddings`."""
        count = self.config.num_directions
        first = [boundaries[None, :1], boundaries[None, 1:]][:count]  # (1, 1, feature)
        return self.read(first, [None] * count, self.initial_states(1))[1]

    def char_ids(self, tokens: Any) -> Any:
        """Converts tokens to the char ids that this biLM reads.

        Args:
            tokens: strings of any shape, see `elmo_tf.char_ids`.

        Returns:
            int32 (…, max_chars), zeros for `""`: bytes (see `elmo_tf.char_ids`), or entries of the
            lexicon. If that has words, the id of the word comes first: (…, 1 + max_chars). Ragged
            if `tokens` is ragged.

        Raises:
            TypeError: `tokens` contains a value that is not a string.
            ValueError: the biLM has no character CNN.
        """
        if self.config.char_cnn is None:
            raise ValueError("This biLM has no character CNN, so it has no char ids.")
        return self._ids.spelling.char_ids(tokens, self.config.char_cnn.max_chars)

    def ids(self, inputs: Any) -> tf.Tensor:
        """Converts strings to the ids that a call also takes; see `Elmo.preprocess`."""
        inputs, lengths = checked_inputs(inputs, None)
        if inputs.dtype != tf.string:
            return inputs
        tokens, _ = token_batch(inputs, lengths)
        ids = self._ids.of_strings(tf.reshape(tokens, (-1,)))
        shape = tf.concat([tf.shape(tokens), ids.shape[1:]], axis=0)
        return tf.ensure_shape(tf.reshape(ids, shape), [*tokens.shape, *ids.shape[1:]])

    def token_embeddings(self, tokens: Any) -> Any:
        """Encodes tokens without context: the vectors below the LSTMs.

        Args:
            tokens: strings of any shape, see `elmo_tf.char_ids`.

        Returns:
            float (…, projection_dim); zeros for `""`. Ragged if `tokens` is ragged.

        Raises:
            TypeError: `tokens` contains a value that is not a string.
            ValueError: the biLM requires a vocabulary and has none.
        """
        tokens = string_tensor(tokens)
        if isinstance(tokens, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.token_embeddings, tokens)
        # The special tokens also make an empty batch of tokens possible.
        vectors = self.encode_tokens(tf.reshape(tokens, (-1,)))[token_ids.NUM_SPECIAL_TOKENS :]
        vectors = ops.reshape(vectors, (*ops.shape(tokens), self.config.lstm.projection_dim))
        return ops.where(is_token(tokens)[..., None], vectors, ops.zeros_like(vectors))

    def encode_tokens(self, tokens: tf.Tensor) -> tf.Tensor:
        """Encodes tokens, after three special ones: no token, `<S>` and `</S>`.

        string (token,) → float (3 + token, projection_dim).
        """
        return self._encode(self._ids.of_strings(tokens))

    def boundary_embeddings(self) -> Any:
        """The vectors of `<S>` and `</S>`, float (2, projection_dim)."""
        return self.encode_tokens(tf.zeros((0,), tf.string))[1:]

    def reset_states(self) -> None:
        """Resets the LSTM states that `stateful=True` carries from batch to batch."""
        if self._carried is not None:
            self._carried.reset()

    def warm_start(self, sentences: Iterable[Any]) -> None:
        """Reads sentences, whose final LSTM state becomes the initial state of all later calls.

        If `stateful`, rows that carry a state keep it until `reset_states`.

        Improves vectors of checkpoints that were trained with carried state, for which zeros are
        an unusual initial state. Deterministic: later calls do not change the initial state.
        Calling `warm_start` again starts from zeros.

        Args:
            sentences: sentences (str) or lists of tokens, read in order.

        Raises:
            TypeError, ValueError: `sentences` is empty, or contains an input that a call rejects.
                The initial state is then unchanged.
        """
        refuse_string(sentences, "sentences")
        states = zeros = self.zero_states(1)
        for sentence in sentences:
            vectors, mask = self.token_vectors(*checked_inputs([sentence], None))
            _, states = self._read_sentences(vectors, mask, states)
        if states is zeros:
            raise ValueError("`sentences` is empty: pass at least one sentence.")
        flat = [ops.concatenate(state, axis=-1)[0] for stack in states for state in stack]
        self.initial_state.assign(ops.reshape(ops.stack(flat), self.initial_state.shape))

    def get_config(self):
        projection = getattr(self.token_encoder, "projection", None)
        if getattr(projection, "quantization_mode", None):
            raise ValueError("A quantized biLM cannot be saved or cloned.")
        return {
            **super().get_config(),
            "config": self.config.to_options(),
            "stateful": self.stateful,
            "keep_boundaries": self.keep_boundaries,
            "vocabulary": list(self.vocabulary.tokens) if self.vocabulary else None,
            "lexicon": self.lexicon.get_config() if self.lexicon else None,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        trainable = config.pop("trainable", True)
        config["config"] = BiLMConfig.from_options(config["config"])
        if config.get("vocabulary"):
            config["vocabulary"] = Vocabulary(config["vocabulary"])
        if config.get("lexicon"):
            config["lexicon"] = Lexicon(**config["lexicon"])
        bilm = cls(**config)
        bilm.trainable = trainable  # as an argument, it would not freeze the layers within
        return bilm
