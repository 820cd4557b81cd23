"""Sentences ─► their vectors: token vectors, then the LSTMs, several sentences at once.

The vectors of the distinct tokens are cached. Sentences are packed into rows of similar length,
which are read in windows with carried state: the forward direction from the first token of a row to
the last, the backward direction from the last to the first. So a sentence of any length needs
little memory, and its vectors are those of a single pass.
"""

import concurrent.futures
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.vectors import chosen_layers
from elmo_tf.layers.recurrence_tf import FEW_ROWS
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS
from elmo_tf.processors import num_cores
from elmo_tf.text.batches import packed_rows, rounded_rows, windows
from elmo_tf.text.reading import encode

# The backward direction begins at the end of each sentence.
_STEPS = 1, -1
# Tokens that are encoded together.
_TOKENS_AT_ONCE = 512
# Smaller batches are padded to this size. Small matrix products use other kernels, so the last bits
# of a vector would depend on the number of tokens encoded with it.
_LEAST_TOKENS = 128


class GroupReader:
    """Embeds groups of sentences, about `batch_tokens` tokens at once.

    `layers` and `mix` are those of `chosen_layers`; `table` caches the token vectors.
    """

    def __init__(self, bilm: BiLM, layers: str | int, mix: ScalarMix | None, batch_tokens: int):
        self._bilm = bilm
        self._layers = layers
        self._mix = mix
        # A mix with layer normalization needs complete sentences: then the graph returns all
        # layers, and `_arranged` mixes them.
        self._mixes_sentences = mix is not None and mix.layer_norm
        self._batch_tokens = batch_tokens
        self.table = TokenTable(bilm)
        num_lstms = bilm.config.lstm.num_layers  # of which the choice may need only the first
        self._depth = layers if isinstance(layers, int) else num_lstms
        self._graphs: dict[tuple[bool, bool], Callable] = {}
        self._copier = concurrent.futures.ThreadPoolExecutor(1)

    def __call__(self, sentences: Sequence[list[str]]) -> list[np.ndarray]:
        """Returns float32 (…, token, feature) per sentence, from its tokens."""
        if not sentences:
            return []
        tokens = self.table.rows(sentences)
        if self._depth == 0:
            copies = 1, self._bilm.config.num_directions
            return [np.tile(self.table.vectors[rows], copies) for rows in tokens]
        lengths = [len(rows) for rows in tokens]
        rows = packed_rows(lengths, self._batch_tokens)
        widths = [sum(lengths[index] for index in row) for row in rows]
        shape = self._bilm.config.num_directions, rounded_rows(len(rows)), max(widths[0], 1)
        ids, starts = np.zeros(shape, np.int32), np.zeros(shape, bool)
        places: list[_Place] = []
        for direction, (row, packed) in itertools.product(range(shape[0]), enumerate(rows)):
            end = 0
            for sentence in packed[:: _STEPS[direction]]:
                start, end = end, end + lengths[sentence]
                ids[direction, row, start:end] = tokens[sentence][:: _STEPS[direction]]
                starts[direction, row, start : start + 1] = True
                places.append((direction, row, start, end, sentence))
        first_states = [stack[: self._depth] for stack in self.table.first_states]
        states = tf.nest.map_structure(lambda part: np.repeat(part, shape[1], 0), first_states)
        is_packed = len(rows) < len(sentences)
        arrays: list[np.ndarray] = []
        copied = None
        for window, num_rows in windows(widths, self._batch_tokens):
            part = np.s_[:, :num_rows, window]
            read = self._graph(num_rows <= FEW_ROWS, is_packed or num_rows > FEW_ROWS)
            vectors = tf.constant(self.table.vectors[ids[part]])
            layers, states = read(vectors, tf.constant(starts[part]), first_states, states)
            layers = [layer.numpy() for layer in layers]
            if not arrays:
                _, *others, _, width = layers[0].shape  # (row, …, token, feature)
                arrays = [np.empty((*others, n, shape[0] * width), np.float32) for n in lengths]
            # While a window is read, the vectors of the one before are copied.
            if copied is not None:
                copied.result()
            copied = self._copier.submit(_copy, layers, window, places, arrays)
        copied.result()
        return [self._arranged(array) for array in arrays]

    def _arranged(self, array: np.ndarray) -> np.ndarray:
        if self._mixes_sentences:
            array = self._mix(tf.constant(array[np.newaxis]))[0].numpy()
        return np.concatenate(array, axis=-1) if self._layers == "concat" else array

    def _graph(self, few_rows: bool, is_packed: bool) -> Callable[..., tuple[list[Any], Any]]:
        """The graph that reads one window of all rows in each direction, for all shapes.

        From token vectors, float32 (direction, row, token, projection_dim), starts, see
        `LSTMStack.read_packed`, `TokenTable.first_states`, and the states of these and more rows,
        it returns for each direction float32 (row, …, token, feature), in reading order; and the
        new states.
        """
        if (few_rows, is_packed) in self._graphs:
            return self._graphs[few_rows, is_packed]
        bilm, lstm = self._bilm, self._bilm.config.lstm

        def read_window(vectors, starts, first_states, states):
            vectors = tf.unstack(tf.cast(vectors, bilm.compute_dtype))
            starts = tf.unstack(starts) if is_packed else [None] * len(vectors)
            num_rows = tf.shape(vectors[0])[0]
            states = tf.nest.map_structure(lambda part: part[:num_rows], states)
            directions = zip(bilm.lstm_stacks, vectors, starts, first_states, states, strict=True)
            read = [stack.read_packed(*args, few_rows) for stack, *args in directions]
            layers = [
                tf.cast(tf.stack([inputs, *outputs], axis=1), tf.float32)
                for inputs, (outputs, _) in zip(vectors, read, strict=True)
            ]
            if not self._mixes_sentences:
                layers = [chosen_layers(part, self._layers, self._mix) for part in layers]
            return layers, [states for _, states in read]

        count = bilm.config.num_directions
        h = tf.TensorSpec((None, lstm.projection_dim), bilm.compute_dtype)
        c = tf.TensorSpec((None, lstm.dim), tf.float32)  # the cell state is not rounded
        states = [[[h, c]] * self._depth] * count
        vectors = tf.TensorSpec((count, None, None, lstm.projection_dim), tf.float32)
        starts = tf.TensorSpec((count, None, None), tf.bool)
        graph = _traced(read_window, vectors, starts, states, states)
        return self._graphs.setdefault((few_rows, is_packed), graph)


def _traced(function: Callable, *signature: Any) -> Callable[..., Any]:
    # Not a decorated method: TensorFlow warns of those that many objects trace.
    return tf.function(function, autograph=False).get_concrete_function(*signature)


# Where a direction reads a sentence: direction, row, start and end in reading order, sentence.
_Place = tuple[int, int, int, int, int]


def _copy(
    layers: Sequence[np.ndarray],
    window: slice,
    places: Iterable[_Place],
    arrays: Sequence[np.ndarray],
) -> None:
    """Copies the vectors of a window to the arrays of its sentences."""
    width = layers[0].shape[-1]
    for direction, row, start, end, sentence in places:
        first, last = max(start, window.start), min(end, window.stop)
        if row < len(layers[direction]) and first < last:
            features = slice(direction * width, (direction + 1) * width)
            target = arrays[sentence][..., :: _STEPS[direction], features]
            part = np.s_[row, ..., first - window.start : last - window.start, :]
            target[..., first - start : last - start, :] = layers[direction][part]


class TokenTable:
    """Caches token vectors (the layer below the LSTMs) across batches.

    The first rows of `vectors`, float32 (row, projection_dim), are padding, `<S>` and `</S>`. When
    a request exceeds the capacity, a number of distinct tokens, only the tokens of that request
    remain. `first_states` are the states before each sentence, see `BiLM.boundary_states`.
    """

    def __init__(self, bilm: BiLM, capacity: int = 50_000):
        self._capacity = capacity
        dim = bilm.config.lstm.projection_dim
        self.vectors = np.zeros((NUM_SPECIAL_TOKENS, dim), np.float32)

        def encode_rows(tokens):
            return tf.cast(bilm.encode_tokens(tokens), tf.float32)

        def read_boundaries(boundaries):
            states = bilm.boundary_states(tf.cast(boundaries, bilm.compute_dtype))
            return [[[h, tf.cast(c, tf.float32)] for h, c in stack] for stack in states]

        # string (token,) → (3 + token, dim), and vectors of `<S>` and `</S>` → `first_states`
        self._encode_rows = _traced(encode_rows, tf.TensorSpec((None,), tf.string))
        self._read_boundaries = _traced(read_boundaries, tf.TensorSpec((2, dim), tf.float32))
        self.forget()

    def forget(self) -> None:
        """Encodes the boundaries again, and removes all tokens."""
        self.vectors[:NUM_SPECIAL_TOKENS] = self._encode([])
        self.first_states = self._read_boundaries(self.vectors[1:NUM_SPECIAL_TOKENS])
        self._rows: dict[str, int] = {}

    def rows(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Rows of the tokens, int32 (token,) per sentence. Valid until the next call."""
        wanted = dict.fromkeys(token for tokens in sentences for token in tokens)
        missing = [token for token in wanted if token not in self._rows]
        if len(self._rows) + len(missing) > self._capacity:
            self._rows, missing = {}, list(wanted)
        if missing:
            self._add(missing)
        rows = self._rows
        return [np.array([rows[token] for token in tokens], np.int32) for tokens in sentences]

    def _add(self, tokens: Sequence[str]) -> None:
        first = NUM_SPECIAL_TOKENS + len(self._rows)
        size = first + len(tokens)
        if size > len(self.vectors):  # at least doubles, so that the table is rarely copied
            num_new = max(size - len(self.vectors), len(self.vectors))
            self.vectors = np.pad(self.vectors, [(0, num_new), (0, 0)])

        starts = range(0, len(tokens), _TOKENS_AT_ONCE)
        parts = [tokens[start : start + _TOKENS_AT_ONCE] for start in starts]
        # Parts are encoded in parallel, because operations may have a single thread.
        with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
            encoded = [vectors[NUM_SPECIAL_TOKENS:] for vectors in pool.map(self._encode, parts)]
        self.vectors[first:size] = np.concatenate(encoded)
        self._rows.update(zip(tokens, range(first, size), strict=True))

    def _encode(self, tokens: list[str]) -> np.ndarray:
        padded = [*map(encode, tokens), *[b"<S>"] * (_LEAST_TOKENS - len(tokens))]
        vectors = self._encode_rows(tf.constant(padded, tf.string))
        return vectors[: NUM_SPECIAL_TOKENS + len(tokens)].numpy()
