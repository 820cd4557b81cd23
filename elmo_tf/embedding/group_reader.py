"""Sentences ─► their vectors: token vectors, then the LSTMs, several sentences at once.

The vectors of the distinct tokens are cached. Short sentences share the rows of a batch. Long
sentences are read in windows with carried state, which gives the vectors of a single pass: the
forward direction reads the windows from the first to the last, the backward direction from the last
to the first, and each window starts from the LSTM state after the previous one.
"""

import collections
import concurrent.futures
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.cores import num_cores
from elmo_tf.embedding.layer_choice import LayerChoice
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS, between_boundaries
from elmo_tf.text.batches import packed_batches

_BATCHES_AT_ONCE = 2
# Tokens per window. Sizes are multiples of the least one: TensorFlow keeps memory for every shape.
MIN_WINDOW, MAX_WINDOW = 32, 512
# Tokens that are encoded together.
_TOKENS_AT_ONCE = 512
# Smaller batches are padded to this size. Small matrix products use other kernels, so the last bits
# of a vector would depend on the number of tokens encoded with it.
_LEAST_TOKENS = 128
# Initial number of rows. A full table doubles, so that it is rarely copied.
_FIRST_SIZE = 1024


class GroupReader:
    """Embeds groups of sentences, `batch_tokens` tokens at once."""

    def __init__(self, bilm: BiLM, choice: LayerChoice, batch_tokens: int, table: "TokenTable"):
        self._bilm = bilm
        self._choice = choice
        self._batch_tokens = batch_tokens
        self._table = table
        self._lstm_lock = threading.Lock()  # two batches at once would need twice the memory

    def __call__(self, sentences: Sequence[list[bytes]]) -> list[np.ndarray]:
        """Returns float32 (…, token, feature) per sentence, from its tokens."""
        tokens = self._table.rows(sentences)
        arrays: list[Any] = [None] * len(sentences)
        indices = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        num_long = 0
        if self._choice.is_local:
            num_long = sum(len(sentence) > MAX_WINDOW for sentence in tokens)
            self._embed_long(indices[:num_long], tokens, arrays)
        short = sorted(indices[num_long:])

        def embed(rows: Sequence[Sequence[int]]) -> None:
            rows = [[short[place] for place in row] for row in rows]
            self._embed_rows(rows, tokens, arrays)

        batches = packed_batches([len(tokens[index]) for index in short], self._batch_tokens)
        # While a batch is computed, the vectors of another one are copied.
        with concurrent.futures.ThreadPoolExecutor(_BATCHES_AT_ONCE) as pool:
            collections.deque(pool.map(embed, batches), maxlen=0)
        return [self._choice.arranged(array) for array in arrays]

    def _embed_rows(
        self, rows: Sequence[Sequence[int]], tokens: Sequence[np.ndarray], arrays: list[Any]
    ) -> None:
        """Embeds a packed batch: the indices of the sentences of each row.

        `tokens` are the tokens of each sentence, as rows of the token table; `arrays` gets the
        array of each sentence.
        """
        width = max(1, *(sum(len(tokens[index]) for index in row) for row in rows))
        ids = np.zeros((len(rows), width), np.int32)
        starts, ends = np.zeros((2, len(rows), width), bool)
        places = {}
        for row, indices in enumerate(rows):
            end = 0
            for index in indices:
                start, end = end, end + len(tokens[index])
                places[index] = row, slice(start, end)
                if start < end:
                    ids[row, start:end] = tokens[index]
                    starts[row, start] = ends[row, end - 1] = True
        boundaries, vectors = self._table.boundaries, self._table.vectors(ids)
        with self._lstm_lock:
            vectors = self._packed_vectors(vectors, boundaries, starts, ends)
        vectors = vectors.numpy()  # (row, …, token, feature)
        for index, (row, span) in places.items():
            arrays[index] = np.ascontiguousarray(vectors[row, ..., span, :])

    @functools.cached_property
    def _packed_vectors(self) -> Callable[..., tf.Tensor]:
        """The graph of the LSTMs: (row, token, projection_dim) → (row, …, token, feature)."""
        width, dtype = self._bilm.config.lstm.projection_dim, self._bilm.compute_dtype

        def packed_vectors(vectors, boundaries, starts, ends):
            layers = self._bilm.layers_of_packed(
                tf.cast(vectors, dtype), tf.cast(boundaries, dtype), starts, ends
            )
            # Sentences follow each other without gaps, so padding follows the last end of a row.
            mask = tf.cumsum(tf.cast(ends, tf.int32), axis=1, reverse=True) > 0
            return self._choice(tf.cast(layers, tf.float32), mask)

        # Not a decorated method: TensorFlow warns of those that many objects trace.
        return tf.function(packed_vectors, autograph=False).get_concrete_function(
            tf.TensorSpec((None, None, width), tf.float32),
            tf.TensorSpec((2, width), tf.float32),
            *[tf.TensorSpec((None, None), tf.bool)] * 2,
        )

    def _embed_long(
        self, indices: Sequence[int], tokens: Sequence[np.ndarray], arrays: list[Any]
    ) -> None:
        """Embeds long sentences side by side; for the arguments see `_embed_rows`."""
        most = max(self._batch_tokens // MIN_WINDOW, 1)
        for first in range(0, len(indices), most):
            part = indices[first : first + most]
            vectors = [self._table.vectors(between_boundaries(tokens[index])) for index in part]
            for index, array in zip(part, self._read_long(vectors), strict=True):
                arrays[index] = array

    def _read_long(self, sentences: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Embeds long sentences in windows: float32 (…, token, feature) each.

        `sentences` are token vectors with both boundaries, float32 (token + 2, projection_dim),
        the longest first.
        """
        lengths = [len(vectors) for vectors in sentences]
        size = self._batch_tokens // len(lengths) // MIN_WINDOW * MIN_WINDOW
        size = min(max(size, MIN_WINDOW), MAX_WINDOW)
        # The backward direction begins at the end of each sentence.
        steps = (1, -1)[: self._bilm.config.num_directions]
        states = self._bilm.initial_states(len(sentences))
        arrays: list[Any] = [None] * len(sentences)
        for start in range(0, lengths[0], size):
            num_rows = sum(length > start for length in lengths)  # the shortest ones have ended
            states = tf.nest.map_structure(lambda state, rows=num_rows: state[:rows], states)
            windows = np.zeros((len(steps), num_rows, size, sentences[0].shape[-1]), np.float32)
            for direction, row in np.ndindex(windows.shape[:2]):
                part = sentences[row][:: steps[direction]][start : start + size]
                windows[direction, row, : len(part)] = part
            layers, states = self._read_windows(tf.constant(windows), states)
            layers = layers.numpy()  # (direction, row, …, token, feature)
            for direction, row in np.ndindex(windows.shape[:2]):
                *others, _, width = layers.shape[2:]
                if arrays[row] is None:
                    shape = (*others, lengths[row], len(steps) * width)
                    arrays[row] = np.empty(shape, np.float32)
                features = slice(direction * width, (direction + 1) * width)
                target = arrays[row][..., :: steps[direction], features]
                target = target[..., start : start + size, :]
                target[:] = layers[direction, row, ..., : target.shape[-2], :]
        return [array[..., 1:-1, :] for array in arrays]  # without the boundaries

    @functools.cached_property
    def _read_windows(self) -> Callable[..., tuple[tf.Tensor, Any]]:
        """The graph that reads one window of each sentence in each direction, for all shapes.

        Its arguments: windows, float32 (direction, sentence, token, projection_dim), in reading
        order, where only the end of a sentence may be followed by padding; and the states. Its
        results: the layers, float32 (direction, sentence, …, token, feature), and the new states.
        """
        lstm, dtype = self._bilm.config.lstm, self._bilm.compute_dtype
        num_directions = self._bilm.config.num_directions

        def read_windows(windows, states):
            windows = tf.unstack(tf.cast(windows, dtype))
            directions, states = self._bilm.read(windows, [None] * len(windows), states)
            mask = tf.ones(tf.shape(windows[0])[:2], tf.bool)
            layers = [
                self._choice(tf.cast(tf.stack([inputs, *outputs], axis=1), tf.float32), mask)
                for inputs, outputs in zip(windows, directions, strict=True)
            ]
            return tf.stack(layers), states

        state = [tf.TensorSpec((None, size), dtype) for size in lstm.state_sizes]
        return tf.function(read_windows, autograph=False).get_concrete_function(
            tf.TensorSpec((num_directions, None, None, lstm.projection_dim), tf.float32),
            [[state] * lstm.num_layers] * num_directions,
        )


class TokenTable:
    """Caches token vectors (the layer below the LSTMs) across batches.

    The first rows are padding, `<S>` and `</S>`. When a request exceeds the capacity, a number of
    distinct tokens, only the tokens of that request remain. The pinned tokens are encoded now and
    always kept, in addition to the capacity.
    """

    def __init__(self, bilm: BiLM, capacity: int, pinned: Iterable[bytes] = ()):
        self._bilm = bilm
        self.capacity = capacity
        self._rows: dict[bytes, int] = {}
        self._vectors = np.zeros((_FIRST_SIZE, bilm.config.lstm.projection_dim), np.float32)
        self.pinned = dict.fromkeys(pinned)
        self.new_tokens: list[bytes] = []  # that the last request encoded
        self.forget()

    def forget(self) -> None:
        """Encodes the boundaries and the pinned tokens again, and removes all other tokens."""
        self._vectors[:NUM_SPECIAL_TOKENS] = self._encode([])
        self._rows = {}
        self._add(self.pinned)

    def rows(self, sentences: Sequence[Sequence[bytes]]) -> list[np.ndarray]:
        """Rows of the tokens, int32 (token,) per sentence. Valid until the next call."""
        wanted = dict.fromkeys(token for tokens in sentences for token in tokens)
        missing = [token for token in wanted if token not in self._rows]
        if len(self._rows) - len(self.pinned) + len(missing) > self.capacity:
            # Pinned tokens come first.
            self._rows = dict(itertools.islice(self._rows.items(), len(self.pinned)))
            missing = [token for token in wanted if token not in self._rows]
        self._add(missing)
        self.new_tokens = missing
        rows = self._rows
        return [np.array([rows[token] for token in tokens], np.int32) for tokens in sentences]

    @property
    def boundaries(self) -> np.ndarray:
        """See `BiLM.boundary_embeddings`."""
        return self._vectors[1:NUM_SPECIAL_TOKENS]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Token vectors of rows: int (…) → float32 (…, projection_dim)."""
        return self._vectors[rows]

    def _add(self, tokens: Iterable[bytes]) -> None:
        tokens = list(tokens)
        first = NUM_SPECIAL_TOKENS + len(self._rows)
        size = first + len(tokens)
        if size > len(self._vectors):
            num_new = max(size - len(self._vectors), len(self._vectors))
            self._vectors = np.pad(self._vectors, [(0, num_new), (0, 0)])

        def encode(start: int) -> None:
            part = tokens[start : start + _TOKENS_AT_ONCE]
            self._vectors[first + start :][: len(part)] = self._encode(part)[NUM_SPECIAL_TOKENS:]

        # Parts are encoded in parallel, because operations may have a single thread.
        with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
            collections.deque(pool.map(encode, range(0, len(tokens), _TOKENS_AT_ONCE)), maxlen=0)
        self._rows.update(zip(tokens, range(first, size), strict=True))

    def _encode(self, tokens: list[bytes]) -> np.ndarray:
        padded = [*tokens, *[b"<S>"] * (_LEAST_TOKENS - len(tokens))]
        vectors = self._encode_rows(tf.constant(padded, tf.string))
        return vectors[: NUM_SPECIAL_TOKENS + len(tokens)].numpy()

    @functools.cached_property
    def _encode_rows(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """The graph that encodes tokens: string (token,) → (3 + token, projection_dim)."""

        def encode(tokens):
            return tf.cast(self._bilm.encode_tokens(tokens), tf.float32)

        spec = tf.TensorSpec((None,), tf.string)
        return tf.function(encode, autograph=False).get_concrete_function(spec)
