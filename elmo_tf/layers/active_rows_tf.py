"""The rows of a batch that still have tokens, and a loop over the tokens for those rows alone.

Without it, each sentence of a batch costs as much as the longest.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Row counts are rounded up to a multiple: products of many sizes would take memory for each.
_ROWS = 8


class ActiveRows:
    """For each token of a batch, the rows that are read, the longest rows first.

    Whatever the mask is, a token is read of all rows up to the last one that has it. Rows that are
    padded on one side only, either one, so need little more than their own tokens.

    Args:
        mask: bool (token, batch, 1). True = a real token.
    """

    def __init__(self, mask: tf.Tensor):
        real = mask[:, :, 0]
        self._shape = mask.shape[:2]
        self._num_tokens, self._num_rows = tf.unstack(tf.shape(real))
        lengths = tf.reduce_sum(tf.cast(real, tf.int32), axis=0)
        self._order = tf.argsort(-lengths, stable=True)
        self._places = tf.math.invert_permutation(self._order)
        self._real = tf.gather(real, self._order, axis=1)
        # Of a token, the rows in front of the first that has it not.
        self._num_sure = tf.reduce_sum(tf.math.cumprod(tf.cast(self._real, tf.int32), 1), axis=1)
        places = tf.range(1, self._num_rows + 1)
        needed = tf.reduce_max(tf.where(self._real, places, 0), axis=1)
        rounded = -(-needed // _ROWS) * _ROWS
        self._counts = tf.clip_by_value(rounded, 0, self._num_rows)  # (token,)
        self._starts = tf.cumsum(self._counts, exclusive=True)
        tokens, rows = tf.unstack(tf.where(places <= self._counts[:, tf.newaxis]), axis=1)
        self._packed = tf.stack([tf.cast(tokens, tf.int32), tf.gather(self._order, rows)], axis=1)

    def pack(self, sequence: tf.Tensor) -> tf.Tensor:
        """(token, batch, feature) → (token · its rows, feature)."""
        return tf.gather_nd(sequence, self._packed)

    def scan(
        self, step: Callable[..., Sequence[tf.Tensor]], sequences: Sequence[tf.Tensor], state: tuple
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Carries a state over the tokens: `state = step(state, *token)`, for the rows of each.

        At a masked token the state stays as it is.

        Args:
            step: one step.
            sequences: what a step reads, packed.
            state: before the first step, each (batch, feature).

        Returns:
            The first of the state after each token, (token, batch, feature), whatever it is at
            tokens that are not read, and the last state.
        """
        arrays = [
            self._array(one.dtype, one.shape[-1]).split(one, self._counts) for one in sequences
        ]
        outputs = self._array(state[0].dtype, state[0].shape[-1])
        state = [tf.gather(one, self._order) for one in state]

        def body(token, state, outputs):
            count = self._counts[token]
            new_state = step([one[:count] for one in state], *(one.read(token) for one in arrays))
            outputs = outputs.write(token, new_state[0])
            sure = self._num_sure[token]
            real = self._real[token, sure:count, tf.newaxis]

            def merged(new, old):
                unsure = tf.where(real, new[sure:], old[sure:count])
                rows = tf.concat([new[:sure], unsure, old[count:]], axis=0)
                return tf.ensure_shape(rows, old.shape)

            state = [merged(new, old) for new, old in zip(new_state, state, strict=True)]
            return token + 1, state, outputs

        _, state, outputs = tf.while_loop(
            lambda token, *_: token < self._num_tokens, body, (tf.constant(0), state, outputs)
        )
        state = [tf.gather(one, self._places) for one in state]
        return self._unpack(outputs.concat()), state

    def _array(self, dtype: tf.DType, width: int) -> tf.TensorArray:
        return tf.TensorArray(
            dtype, self._num_tokens, infer_shape=False, element_shape=(None, width)
        )

    def _unpack(self, packed: tf.Tensor) -> tf.Tensor:
        """(token · its rows, feature) → (token, batch, feature)."""
        places = self._starts[:, tf.newaxis] + self._places  # (token, batch)
        is_read = self._places < self._counts[:, tf.newaxis]
        # A row of zeros in front stands for what was not read.
        packed = tf.pad(packed, [(1, 0), (0, 0)])
        return tf.ensure_shape(
            tf.gather(packed, tf.where(is_read, places + 1, 0)), (*self._shape, packed.shape[-1])
        )
