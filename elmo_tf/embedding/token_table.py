"""tokens ─► rows of a table: each token is encoded once, however often it comes."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_rows import NUM_SPECIAL_ROWS

# Tokens that are encoded together: enough to keep all cores busy, and few enough for any memory.
_TOKENS_AT_ONCE = 4096
# Fewer are filled up: with other kernels for small products, a token's vector would depend, in its
# last bits, on how many are encoded with it.
_LEAST_TOKENS = 128
# What a table holds at least when it grows; shapes and copies are fewer if it doubles.
_FIRST_SIZE = 1024


class TokenTable:
    """The vectors of tokens by themselves, kept from batch to batch.

    The first rows are those of no token, `<S>` and `</S>`.

    Args:
        bilm: encodes the tokens.
        capacity: int >= 0. Distinct tokens that are kept. When they are more, those of the last
            request alone are.
        pinned: bytes. Tokens that are encoded now and kept for ever, beside the capacity.
    """

    def __init__(self, bilm: BiLM, capacity: int, pinned: Iterable[bytes] = ()):
        self._bilm = bilm
        self.capacity = capacity
        self._rows: dict[bytes, int] = {}
        self._vectors = np.zeros((_FIRST_SIZE, bilm.config.lstm.projection_dim), np.float32)
        self.pinned = dict.fromkeys(pinned)
        self.forget()

    def forget(self) -> None:
        """Encodes the boundaries and the pinned tokens anew, and forgets all others."""
        self._vectors[:NUM_SPECIAL_ROWS] = self._encode([])
        self._rows = {}
        self._add(self.pinned)

    def rows(self, sentences: Sequence[Sequence[bytes]]) -> list[np.ndarray]:
        """The row of each token, int32 (token,) for each sentence; good until the next request."""
        wanted = dict.fromkeys(token for tokens in sentences for token in tokens)
        missing = [token for token in wanted if token not in self._rows]
        if len(self._rows) - len(self.pinned) + len(missing) > self.capacity:
            kept = itertools.islice(self._rows.items(), len(self.pinned))  # they came first
            self._rows = dict(kept)
            missing = [token for token in wanted if token not in self._rows]
        self._add(missing)
        rows = self._rows
        return [np.array([rows[token] for token in tokens], np.int32) for tokens in sentences]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Rows as vectors: int (…) → float32 (…, projection_dim)."""
        return self._vectors[rows]

    def _add(self, tokens: Iterable[bytes]) -> None:
        tokens = list(tokens)
        first = NUM_SPECIAL_ROWS + len(self._rows)
        size = first + len(tokens)
        if size > len(self._vectors):
            grown = np.zeros(
                (max(size, 2 * len(self._vectors)), self._vectors.shape[1]), np.float32
            )
            grown[:first] = self._vectors[:first]
            self._vectors = grown
        for start in range(0, len(tokens), _TOKENS_AT_ONCE):
            part = tokens[start : start + _TOKENS_AT_ONCE]
            self._vectors[first + start :][: len(part)] = self._encode(part)[NUM_SPECIAL_ROWS:]
        self._rows.update(zip(tokens, range(first, size), strict=True))

    def _encode(self, tokens: list[bytes]) -> np.ndarray:
        filled = [*tokens, *[b"<S>"] * (_LEAST_TOKENS - len(tokens))]
        vectors = self._encode_rows(tf.constant(filled, tf.string, shape=(len(filled),)))
        return vectors[: NUM_SPECIAL_ROWS + len(tokens)].numpy()

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)], autograph=False)
    def _encode_rows(self, tokens: tf.Tensor) -> tf.Tensor:
        return tf.cast(self._bilm.encode_rows(tokens), tf.float32)
