"""tokens ─► rows of a table of token vectors, in which each distinct token is encoded once."""

import collections
import concurrent.futures
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS
from elmo_tf.threads import num_cores

# Tokens that are encoded together.
_TOKENS_AT_ONCE = 512
# Smaller batches are padded to this size. Small matrix products use other kernels, so the last bits
# of a vector would depend on the number of tokens encoded with it.
_LEAST_TOKENS = 128
# Initial number of rows. A full table doubles, so that it is rarely copied.
_FIRST_SIZE = 1024


class TokenTable:
    """Caches token vectors (the layer below the LSTMs) across batches.

    The first rows are padding, `<S>` and `</S>`.

    Args:
        bilm: a `BiLM`, which encodes the tokens.
        capacity: int >= 0. Number of cached distinct tokens. When a request exceeds it, only the
            tokens of that request remain.
        pinned: bytes. Tokens that are encoded now and always kept, in addition to the capacity.
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
