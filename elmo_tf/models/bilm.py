"""TokenEncoder ─► BiLM: a language model in each direction, and all its layers as vectors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.config import BiLMConfig
from elmo_tf.models.carried_states import CarriedStates
from elmo_tf.models.lstm_stack import LSTMStack
from elmo_tf.models.token_encoder import TokenEmbedding, TokenEncoder
from elmo_tf.models.token_rows import (
    NUM_SPECIAL_ROWS,
    add_boundaries,
    distinct_rows,
    rows_of_strings,
    with_boundary_rows,
)
from elmo_tf.text.inputs import as_tensor, checked_inputs, is_token
from elmo_tf.text.sentences import string_tensor
from elmo_tf.text.vocabulary import Vocabulary


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLM(keras.Model):
    """A bidirectional language model, as a source of contextual vectors.

    Layer 0 is the token's own vector beside itself, `[x; x]`; layer `j` is
    `[forward_j; backward_j]`. Boundaries `<S>` and `</S>` are added around every sentence before,
    and stripped after. The backward direction reads each sentence from its own end. If
    `config.bidirectional` is False, layer 0 is `[x]` and layer `j` is `[forward_j]`.

    Args:
        config: a `BiLMConfig`.
        stateful: bool. If true, every row of a batch goes on from the LSTM state that the same row
            of the last batch left, as the original does; the same sentence then gives other vectors
            each time. Defaults to False: every sentence starts afresh.
        keep_boundaries: bool. Whether `<S>` and `</S>` stay in the outputs, which then have two
            tokens more. Defaults to False.
        vocabulary: a `Vocabulary`, needed for strings if `config.char_cnn` is None.

    Call arguments:
        inputs: a list of sentences or a string tensor (batch,), split where `str.split()` would; a
            list of token lists, a ragged tensor, or a string tensor (batch, token) padded with
            `""`; char ids (batch, token, char), of which a row may be narrower than
            `config.char_cnn.max_chars` and 0 stand for padding behind a token's characters; or,
            without a character CNN, token ids (batch, token) as `TokenEmbedding` reads them.
        lengths: int (batch,) or None. Real tokens of each row; what stands behind is ignored. None
            counts them.
        training: bool. Whether gradients will be taken; changes nothing but their speed.

    Returns:
        dict of "layers", float (batch, L + 1, token, config.output_dim), zero at masked tokens, and
        "mask", bool (batch, token). The width is 2 · projection_dim, or projection_dim of the
        forward direction alone.

    Raises:
        TypeError: a lone string, something that is no text, or `lengths` that are no integers.
        ValueError: a wrong number of axes, an empty token before a real one, `lengths` beyond the
            tensor, ids out of range, or char ids for a biLM without a character CNN (and the
            reverse).

    Source: Peters et al. 2018, sections 3.1 and 3.4.
    """

    def __init__(
        self,
        config: BiLMConfig,
        stateful: bool = False,
        keep_boundaries: bool = False,
        vocabulary: Vocabulary | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not isinstance(config, BiLMConfig):
            raise TypeError(
                "`config` must be a BiLMConfig: BiLMConfig.preset(name) gives a known size, "
                f"BiLMConfig.from_options(path) reads one. Received: {config!r}"
            )
        _check_vocabulary(config, vocabulary)
        self.config = config
        self.stateful = stateful
        self.keep_boundaries = keep_boundaries
        self.vocabulary = vocabulary
        self.supports_jit = False  # strings
        lstm = config.lstm
        if config.char_cnn is not None:
            self.token_encoder = TokenEncoder.from_char_cnn(
                config.char_cnn,
                lstm.projection_dim,
                dtype=self.dtype_policy,
                name="token_encoder",
            )
        else:
            self.token_encoder = TokenEmbedding(
                config.num_tokens,
                lstm.projection_dim,
                dtype=self.dtype_policy,
                name="token_embedding",
            )
        self.forward_lstm = self._new_stack("forward_lstm")
        self.backward_lstm = self._new_stack("backward_lstm") if config.bidirectional else None
        self._carried = None
        if stateful:
            self._carried = CarriedStates(
                lstm.num_layers, lstm.state_sizes, config.num_directions, self.compute_dtype
            )
        # The weights do not depend on the inputs' shape, and checkpoints are read into them.
        self.build(None)

    def _new_stack(self, name: str) -> LSTMStack:
        lstm = self.config.lstm
        return LSTMStack(
            lstm.dim,
            lstm.projection_dim,
            lstm.num_layers,
            lstm.cell_clip,
            lstm.proj_clip,
            lstm.use_skip_connections,
            dtype=self.dtype_policy,
            name=name,
        )

    @property
    def lstm_stacks(self) -> tuple[LSTMStack, ...]:
        """The LSTMs of each direction: forward, then backward if there is one."""
        stacks = (self.forward_lstm, self.backward_lstm)
        return stacks[: self.config.num_directions]

    def build(self, input_shape):
        lstm = self.config.lstm
        if self.config.char_cnn is not None:
            self.token_encoder.build((None, self.config.char_cnn.max_chars))
        else:
            self.token_encoder.build((None,))
        for stack in self.lstm_stacks:
            stack.build((None, None, lstm.projection_dim))
        # What `warm_start` leaves, as [h; c] of every layer of each direction; zeros before.
        self.initial_state = self.add_weight(
            name="initial_state",
            shape=(self.config.num_directions, lstm.num_layers, sum(lstm.state_sizes)),
            initializer="zeros",
            trainable=False,
        )
        self.built = True

    def __call__(self, inputs, lengths=None, training=False, **kwargs):
        # Keras takes no Python lists, and wraps what `call` raises: so inputs are checked here.
        inputs, lengths = checked_inputs(inputs, lengths)
        return super().__call__(inputs, lengths=lengths, training=training, **kwargs)

    def call(self, inputs, lengths=None, training=False):
        return self.layers_of_vectors(*self.token_vectors(inputs, lengths), training)

    def token_vectors(self, inputs: Any, lengths: Any = None) -> tuple[Any, Any]:
        """Stage 1, tokens → token vectors: each sentence's own, between those of its boundaries.

        Args:
            inputs, lengths: see the call, as `checked_inputs` returns them.

        Returns:
            float (batch, token + 2, projection_dim), and the mask, bool (batch, token + 2): True =
            a real token or a boundary.
        """
        rows, index, lengths = distinct_rows(inputs, lengths, self.config, self.vocabulary)
        index, mask = add_boundaries(index, lengths)
        return tf.gather(self._encode(rows), index), mask

    def read(
        self,
        vectors: Sequence[Any],
        masks: Sequence[Any],
        states: Sequence[Any],
        dropout_fn: Callable[[Any], Any] | None = None,
        training: bool = False,
    ) -> tuple[list[list[Any]], list[Any]]:
        """Stage 2, (token vectors, masks, states) → (layers, states), of each direction by itself.

        Every use of the LSTMs is a call of this method: whole sentences, windows of long
        sentences, and running text in training.

        Args:
            vectors: for each direction float (batch, token, projection_dim), in the order in which
                the direction reads.
            masks: for each direction bool (batch, token), or None. A masked token leaves the state
                as it is, wherever it stands.
            states: for each direction, for each layer, `[h, c]`; see `initial_states`.
            dropout_fn: applied to the input of every LSTM layer, or None.
            training: see the call.

        Returns:
            For each direction the outputs of its layers, float (batch, token, projection_dim), in
            reading order; and the new states.
        """
        layers, new_states = [], []
        directions = zip(self.lstm_stacks, vectors, masks, states, strict=True)
        for stack, direction, mask, state in directions:
            outputs, state = stack(
                direction,
                mask=mask,
                initial_states=state,
                dropout_fn=dropout_fn,
                training=training,
            )
            layers.append(outputs)
            new_states.append(state)
        return layers, new_states

    def layers_of_vectors(self, vectors: Any, mask: Any, training: bool = False) -> dict[str, Any]:
        """What a call returns, from the result of `token_vectors`.

        Args:
            vectors: float (batch, token + 2, projection_dim), each sentence between `<S>` and
                `</S>`.
            mask: bool (batch, token + 2). True = a real token or a boundary.
            training: see the call.
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
            layers, mask = layers[:, :, 1:-1], mask[:, 2:]
        layers = ops.where(mask[:, None, :, None], layers, ops.zeros_like(layers))
        return {"layers": layers, "mask": mask}

    def _read_sentences(self, vectors, mask, states, training=False):
        """Reads whole sentences; all layers come in the order of the text.

        For the backward direction they are reversed together with their padding, which then comes
        first and leaves the initial state untouched.
        """
        num_directions = self.config.num_directions
        directions, states = self.read(
            [vectors, ops.flip(vectors, axis=1)][:num_directions],
            [mask, ops.flip(mask, axis=1)][:num_directions],
            states,
            training=training,
        )
        directions[1:] = [[ops.flip(layer, axis=1) for layer in one] for one in directions[1:]]
        return directions, states

    def token_embeddings(self, tokens: Any) -> Any:
        """The vectors of tokens by themselves, before any LSTM.

        Args:
            tokens: strings of any shape, see `elmo_tf.char_ids`.

        Returns:
            float (…, projection_dim); zeros for `""`. Ragged if `tokens` is.

        Raises:
            TypeError: `tokens` holds something that is no string.
            ValueError: the biLM needs a vocabulary and has none.
        """
        tokens = string_tensor(tokens)
        if isinstance(tokens, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.token_embeddings, tokens)
        # The special rows make a batch of no tokens possible.
        vectors = self.encode_rows(tf.reshape(tokens, (-1,)))[NUM_SPECIAL_ROWS:]
        shape = tf.concat([tf.shape(tokens), [self.config.lstm.projection_dim]], axis=0)
        vectors = tf.reshape(vectors, shape)
        return ops.where(is_token(tokens)[..., None], vectors, ops.zeros_like(vectors))

    def encode_rows(self, tokens: tf.Tensor) -> tf.Tensor:
        """Vectors of a flat batch of tokens, behind three rows: no token, `<S>` and `</S>`.

        Args:
            tokens: string (token,).

        Returns:
            float (3 + token, projection_dim).
        """
        return self._encode(rows_of_strings(tokens, self.config, self.vocabulary))

    def boundary_embeddings(self) -> Any:
        """The vectors of `<S>` and `</S>`, float (2, projection_dim)."""
        return self.encode_rows(tf.zeros((0,), tf.string))[1:]

    def reset_states(self) -> None:
        """Forgets the LSTM states that `stateful=True` carries from batch to batch."""
        if self._carried is not None:
            self._carried.reset()

    def warm_start(self, sentences: Iterable[Any]) -> None:
        """Reads some text and keeps the state as the fixed initial state of every later call.

        The remedy for checkpoints trained with carried state, which a zero state does not suit.
        Deterministic; the order of later calls changes nothing. Calling it again starts from zeros.

        Args:
            sentences: sentences (str) or lists of tokens, read one after the other.

        Raises:
            TypeError, ValueError: there is no sentence, or one that a call would refuse. The state
                is then what it was.
        """
        states = zeros = self.zero_states(1)
        for sentence in sentences:
            vectors, mask = self.token_vectors(as_tensor([sentence]))
            _, states = self._read_sentences(vectors, mask, states)
        if states is zeros:
            raise ValueError("`sentences` is empty: there is nothing to start from.")
        flat = [[ops.concatenate(state, axis=-1)[0] for state in stack] for stack in states]
        self.initial_state.assign(ops.stack([ops.stack(stack) for stack in flat]))

    def _encode(self, rows: tf.Tensor) -> tf.Tensor:
        vectors = self.token_encoder(with_boundary_rows(rows, self.config))  # (2 + token, feature)
        return tf.concat([tf.zeros_like(vectors[:1]), vectors], axis=0)

    def zero_states(self, batch_size: Any) -> list[list[list[Any]]]:
        """States of zeros: for each direction, for each layer, `[h, c]`."""
        lstm = self.config.lstm
        return [
            [
                [ops.zeros((batch_size, size), self.compute_dtype) for size in lstm.state_sizes]
                for _ in range(lstm.num_layers)
            ]
            for _ in range(self.config.num_directions)
        ]

    def initial_states(self, batch_size: Any) -> list[list[list[Any]]]:
        """`[h, c]` of every layer of each direction, with which each sentence begins."""
        state = ops.cast(ops.convert_to_tensor(self.initial_state), self.compute_dtype)
        state = ops.broadcast_to(state[:, :, None], (*state.shape[:2], batch_size, state.shape[2]))
        return [
            [self._split(layer) for layer in ops.unstack(stack)] for stack in ops.unstack(state)
        ]

    def _split(self, state):
        """`[h, c]` of a state (row, projection_dim + dim)."""
        width = self.config.lstm.projection_dim
        return [state[:, :width], state[:, width:]]

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_options(),
            "stateful": self.stateful,
            "keep_boundaries": self.keep_boundaries,
            "vocabulary": list(self.vocabulary.tokens) if self.vocabulary else None,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["config"] = BiLMConfig.from_options(config["config"])
        if config.get("vocabulary"):
            config["vocabulary"] = Vocabulary(config["vocabulary"])
        return cls(**config)


def _check_vocabulary(config: BiLMConfig, vocabulary: Vocabulary | None) -> None:
    if vocabulary is None:
        return
    if config.char_cnn is not None:
        raise ValueError(
            "`vocabulary` is for a biLM without a character CNN; this one spells its tokens."
        )
    if len(vocabulary) != config.num_tokens:
        raise ValueError(
            f"`vocabulary` must have the {config.num_tokens} tokens of the embedding table. "
            f"Received: {len(vocabulary)} tokens."
        )
