"""TokenEncoder ─► BiLM: a language model in each direction, and all its layers as vectors."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.config import BiLMConfig
from elmo_tf.models.carried_states import CarriedStates
from elmo_tf.models.lstm_stack import LSTMStack
from elmo_tf.models.token_encoder import TokenEmbedding, TokenEncoder, cut_characters
from elmo_tf.text.char_ids import PAD, boundary_char_ids, char_ids
from elmo_tf.text.inputs import as_tensor, checked, checked_inputs, row_lengths, token_batch
from elmo_tf.text.sentences import string_tensor
from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary

# Rows in front of the encoded tokens of a batch: no token, <S>, </S>.
NO_TOKEN_ROW, BOS_ROW, EOS_ROW, FIRST_ROW = range(4)


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLM(keras.Model):
    """A bidirectional language model, as a source of contextual vectors.

    Layer 0 is the token's own vector beside itself, `[x; x]`; layer `j` is
    `[forward_j; backward_j]`. Boundaries `<S>` and `</S>` are added around every sentence before,
    and stripped after. The backward direction reads each sentence from its own end.

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
            `""`; char ids (batch, token, char); or, without a character CNN, token ids
            (batch, token) as `TokenEmbedding` reads them.
        lengths: int (batch,) or None. Real tokens of each row; what stands behind is ignored. None
            counts them.
        training: bool. Whether gradients will be taken; changes nothing but their speed.

    Returns:
        dict of "layers", float (batch, L + 1, token, 2 · projection_dim), zero at masked tokens,
        and "mask", bool (batch, token).

    Raises:
        TypeError: a lone string, or something that is no text.
        ValueError: a wrong number of axes, an empty token before a real one, `lengths` beyond the
            tensor, or char ids for a biLM without a character CNN (and the reverse).

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
        self.forward_lstm, self.backward_lstm = (
            LSTMStack(
                lstm.dim,
                lstm.projection_dim,
                lstm.num_layers,
                lstm.cell_clip,
                lstm.proj_clip,
                lstm.use_skip_connections,
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("forward_lstm", "backward_lstm")
        )
        self._carried = CarriedStates(lstm.num_layers, self._state_sizes()) if stateful else None
        # The weights do not depend on the inputs' shape, and checkpoints are read into them.
        self.build(None)

    def build(self, input_shape):
        lstm = self.config.lstm
        if self.config.char_cnn is not None:
            self.token_encoder.build((None, self.config.char_cnn.max_chars))
        else:
            self.token_encoder.build((None,))
        for stack in (self.forward_lstm, self.backward_lstm):
            stack.build((None, None, lstm.projection_dim))
        # What `warm_start` leaves, as [h; c] of every layer of both directions; zeros before.
        self.initial_state = self.add_weight(
            name="initial_state",
            shape=(2, lstm.num_layers, sum(self._state_sizes())),
            initializer="zeros",
            trainable=False,
        )
        self.built = True

    def _state_sizes(self) -> tuple[int, int]:
        return self.config.lstm.projection_dim, self.config.lstm.dim

    def __call__(self, inputs, lengths=None, training=False, **kwargs):
        # Keras takes no Python lists, and wraps what `call` raises: so inputs are checked here.
        inputs, lengths = checked_inputs(inputs, lengths)
        return super().__call__(inputs, lengths=lengths, training=training, **kwargs)

    def call(self, inputs, lengths=None, training=False):
        table, index, lengths = self._encode_distinct(inputs, lengths)
        vectors, mask = self._with_boundaries(table, index, lengths)  # (batch, token + 2, feature)
        layers = ops.stack(
            self._representations(vectors, mask, training), axis=1
        )  # (batch, layer, …)
        if not self.keep_boundaries:
            layers, mask = layers[:, :, 1:-1], mask[:, 2:]
        layers = ops.where(mask[:, None, :, None], layers, ops.zeros_like(layers))
        return {"layers": layers, "mask": mask}

    def token_embeddings(self, tokens: Any) -> Any:
        """The vectors of tokens by themselves, before any LSTM.

        Args:
            tokens: strings of any shape, see `elmo_tf.char_ids`.

        Returns:
            float (…, projection_dim); zeros for `""`.
        """
        tokens = string_tensor(tokens)
        if isinstance(tokens, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.token_embeddings, tokens)
        # Behind the boundaries' rows, so that no token at all is a batch too.
        vectors = self.encode_rows(tf.reshape(tokens, (-1,)))[FIRST_ROW:]
        shape = tf.concat([tf.shape(tokens), [self.config.lstm.projection_dim]], axis=0)
        vectors = tf.reshape(vectors, shape)
        return ops.where((tf.strings.length(tokens) > 0)[..., None], vectors, 0.0)

    def encode_rows(self, tokens: tf.Tensor) -> tf.Tensor:
        """Vectors of a flat batch of tokens, behind three rows: no token, `<S>` and `</S>`.

        Args:
            tokens: string (token,).

        Returns:
            float (3 + token, projection_dim).
        """
        return self._table(self._token_ids(tokens))

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
        """
        states = None  # zeros
        for sentence in sentences:
            table, index, lengths = self._encode_distinct(as_tensor([sentence]), None)
            vectors, mask = self._with_boundaries(table, index, lengths)
            _, states = self._read(vectors, mask, states)
        if states is None:
            raise ValueError("`sentences` is empty: there is nothing to start from.")
        flat = [[ops.concatenate(state, axis=-1)[0] for state in stack] for stack in states]
        self.initial_state.assign(ops.stack([ops.stack(stack) for stack in flat]))

    def _encode_distinct(self, inputs, lengths):
        """Encodes each distinct token of a batch once.

        Returns:
            float (3 + distinct token, feature), see `encode_rows`; int (batch, token) into it; and
            int (batch,), the real tokens of each row.
        """
        if inputs.dtype == tf.string:
            tokens, lengths = token_batch(inputs, lengths)
            distinct, index = tf.unique(tf.reshape(tokens, (-1,)))
            index = tf.reshape(index, tf.shape(tokens))
            return self.encode_rows(distinct), index + FIRST_ROW, lengths
        most = PAD if self.config.char_cnn is not None else self.config.num_tokens
        valid = tf.reduce_all(tf.logical_and(inputs >= 0, inputs <= most))
        ids = checked(inputs, valid, f"Ids must be between 0 and {most}, not", inputs)
        if self.config.char_cnn is None:
            if len(ids.shape) != 2:
                raise ValueError(
                    "This biLM has no character CNN: it reads strings, or token ids of shape "
                    f"(batch, token). Received: ids of shape {tuple(ids.shape)}."
                )
            is_token, rows = ids != 0, tf.reshape(ids, (-1,))
        else:
            if len(ids.shape) != 3:
                raise ValueError(
                    "This biLM reads strings, or char ids of shape (batch, token, char). "
                    f"Received: ids of shape {tuple(ids.shape)}."
                )
            least, most = max(3, self.config.char_cnn.max_width), self.config.char_cnn.max_chars
            if ids.shape[-1] is not None and not least <= ids.shape[-1] <= most:
                raise ValueError(
                    f"A row of char ids must have {least} to {most} characters. "
                    f"Received: ids of shape {tuple(ids.shape)}."
                )
            is_token = tf.reduce_any(ids != 0, axis=-1)
            rows = tf.reshape(ids, (-1, tf.shape(ids)[-1]))
        lengths = row_lengths(is_token, lengths)
        index = tf.reshape(tf.range(tf.shape(rows)[0]), tf.shape(is_token))
        return self._table(rows), index + FIRST_ROW, lengths

    def _token_ids(self, tokens: tf.Tensor) -> tf.Tensor:
        if self.config.char_cnn is not None:
            return char_ids(tokens, self.config.char_cnn.max_chars)
        if self.vocabulary is None:
            raise ValueError(
                "This biLM looks tokens up in a vocabulary, and was given none: pass "
                "`vocabulary=`, or token ids instead of strings."
            )
        ids = tf.cast(self.vocabulary.lookup(tokens), tf.int32) + 1
        return tf.where(tf.strings.length(tokens) > 0, ids, 0)

    def _table(self, rows: tf.Tensor) -> tf.Tensor:
        if self.config.char_cnn is not None:
            boundaries = boundary_char_ids(self.config.char_cnn.max_chars)
            width = tf.shape(rows)[1]
            rows = cut_characters(
                tf.concat([boundaries[:, :width], rows], axis=0), self.config.char_cnn.max_width
            )
        else:
            boundaries = tf.constant([BOS_ID + 1, EOS_ID + 1])
            rows = tf.concat([boundaries, rows], axis=0)
        vectors = self.token_encoder(rows)  # (2 + token, feature)
        return tf.concat([tf.zeros_like(vectors[:1]), vectors], axis=0)

    def _with_boundaries(self, table, index, lengths):
        """Puts `<S>` before and `</S>` behind each sentence.

        Returns:
            float (batch, token + 2, feature) and the mask, bool (batch, token + 2).
        """
        index = tf.pad(index, [[0, 0], [1, 1]], constant_values=BOS_ROW)
        position = tf.range(tf.shape(index)[1])
        end = lengths[:, tf.newaxis] + 1
        index = tf.where(position == end, EOS_ROW, index)
        mask = position <= end
        index = tf.where(mask, index, NO_TOKEN_ROW)
        return tf.gather(table, index), mask

    def _representations(self, vectors, mask, training):
        initial = self._initial_states(ops.shape(vectors)[0])
        if self._carried is not None:
            initial = self._carried.read(initial)
        (forward, backward), states = self._read(vectors, mask, initial, training)
        if self._carried is not None:
            self._carried.write(states)
        pairs = [(vectors, vectors), *zip(forward, backward, strict=True)]
        return [ops.concatenate(pair, axis=-1) for pair in pairs]

    def _read(self, vectors, mask, initial, training=False):
        """Both directions' layers, in the order of the text, and their last states.

        Reversed as a whole, padding comes first; it leaves the initial state untouched, so each
        sentence is read from its own end.
        """
        initial = initial or (None, None)
        forward, forward_states = self.forward_lstm(
            vectors, mask=mask, initial_states=initial[0], training=training
        )
        backward, backward_states = self.backward_lstm(
            ops.flip(vectors, axis=1),
            mask=ops.flip(mask, axis=1),
            initial_states=initial[1],
            training=training,
        )
        backward = [ops.flip(layer, axis=1) for layer in backward]
        return (forward, backward), (forward_states, backward_states)

    def _initial_states(self, batch_size):
        """`[h, c]` of every layer of both directions, the same for each row."""
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
