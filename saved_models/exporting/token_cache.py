"""tokens ─► token vectors in an exported model, with a cache that lasts from request to request."""

import tensorflow as tf

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS, add_boundaries

# A token has no whitespace, so these keys are not tokens.
_BOUNDARY_KEYS = (" <S>", " </S>")


class TokenCache:
    """Token vectors of the tokens of earlier requests, in a table that the model holds in memory.

    A saved model starts with an empty table. If the new tokens of a request do not all fit into the
    table, none of them is stored. The table does not see later changes of the weights.

    Args:
        bilm: the exported biLM.
        capacity: int >= 1. Number of tokens.

    Attributes:
        table: the table, which the exported model must track.
    """

    def __init__(self, bilm: BiLM, capacity: int):
        self._bilm = bilm
        self._capacity = capacity
        self._width = bilm.config.lstm.projection_dim
        missing = tf.fill((self._width,), float("nan"))
        self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, missing)

    def token_vectors(self, tokens: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`BiLM.token_vectors`, without gradients.

        Args:
            tokens: string (batch, token).
            lengths: int32 (batch,).
        """
        distinct, index = tf.unique(tf.reshape(tokens, (-1,)))
        index = tf.reshape(index, tf.shape(tokens)) + NUM_SPECIAL_TOKENS
        index, mask = add_boundaries(index, lengths)
        found = self.table.lookup(tf.concat([_BOUNDARY_KEYS, distinct], axis=0))
        found = tf.ensure_shape(found, (None, self._width))  # (2 + distinct token, feature)
        is_missing = tf.math.is_nan(found[:, 0])
        rows = tf.cond(
            tf.reduce_any(is_missing),
            lambda: self._encode_missing(distinct, found, is_missing),
            lambda: tf.pad(found, [[1, 0], [0, 0]]),
        )
        return tf.cast(tf.gather(rows, index), self._bilm.compute_dtype), mask

    def _encode_missing(
        self, distinct: tf.Tensor, found: tf.Tensor, is_missing: tf.Tensor
    ) -> tf.Tensor:
        """Encodes the missing tokens, and returns all rows as `BiLM.encode_tokens` does."""
        num_boundaries = len(_BOUNDARY_KEYS)
        places = tf.where(is_missing[num_boundaries:])
        missing = tf.gather_nd(distinct, places)
        encoded = tf.cast(self._bilm.encode_tokens(missing), tf.float32)
        keys = tf.concat([_BOUNDARY_KEYS, missing], axis=0)
        size = tf.cast(self.table.size(), tf.int32) + tf.size(missing)
        has_room = size <= self._capacity + num_boundaries
        num_kept = tf.where(has_room, tf.size(keys), 0)
        kept = self.table.insert(keys[:num_kept], encoded[1 : 1 + num_kept])
        with tf.control_dependencies([kept]):
            found = tf.tensor_scatter_nd_update(
                found[num_boundaries:], places, encoded[NUM_SPECIAL_TOKENS:]
            )
        return tf.concat([encoded[:NUM_SPECIAL_TOKENS], found], axis=0)
