"""A loop over the tokens of a batch that skips padding.

Without it, each sentence of a batch costs as much as the longest sentence.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Row counts are rounded up to a multiple of this: TensorFlow keeps memory for every shape.
_ROWS = 8


class ActiveRows:
    """The active rows of a batch at each token position, with the longest rows first.

    With rows sorted by length, a position is computed for all rows up to the last one with a real
    token there. Any mask, bool (token, batch, 1), is supported; little padding is computed if it is
    on one side only.
    """

    def __init__(self, mask: tf.Tensor):
        real = mask[:, :, 0]
        self._shape = mask.shape[:2]
        self._num_tokens, self._num_rows = tf.unstack(tf.shape(real))
        lengths = tf.reduce_sum(tf.cast(real, tf.int32), axis=0)
        self._order = tf.argsort(-lengths, stable=True)
        self._places = tf.math.invert_permutation(self._order)
        self._real = tf.gather(real, self._order, axis=1)
        # (token,): number of leading rows without padding.
        self._num_real = tf.reduce_sum(tf.math.cumprod(tf.cast(self._real, tf.int32), 1), axis=1)
        places = tf.range(1, self._num_rows + 1)
        needed = tf.reduce_max(tf.where(self._real, places, 0), axis=1)
        rounded = -(-needed // _ROWS) * _ROWS
        self._counts = tf.clip_by_value(rounded, 0, self._num_rows)  # (token,)
        self._starts = tf.cumsum(self._counts, exclusive=True)
        tokens, rows = tf.unstack(tf.where(places <= self._counts[:, tf.newaxis]), axis=1)
        self._packed = tf.stack([tf.cast(tokens, tf.int32), tf.gather(self._order, rows)], axis=1)

    def pack(self, sequence: tf.Tensor) -> tf.Tensor:
        """Drops the inactive rows: (token, batch, feature) → (sum of active rows, feature)."""
        return tf.gather_nd(sequence, self._packed)

    def scan(
        self, step: Callable[..., Sequence[tf.Tensor]], sequences: Sequence[tf.Tensor], state: tuple
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Runs `state = step(state, *inputs)` over the tokens, for the active rows of each.

        Masked tokens do not change the state, each (batch, feature). `sequences` are packed.

        Returns the first tensor of the state after each token, (token, batch, feature), with
        arbitrary values at masked tokens; and the final state.
        """
        arrays = [self._array(packed).split(packed, self._counts) for packed in sequences]
        outputs = self._array(state[0])
        state = [tf.gather(tensor, self._order) for tensor in state]

        def body(token, state, outputs):
            count = self._counts[token]
            inputs = [array.read(token) for array in arrays]
            new_state = step([tensor[:count] for tensor in state], *inputs)
            outputs = outputs.write(token, new_state[0])
            num_real = self._num_real[token]
            real = self._real[token, num_real:count, tf.newaxis]

            def merged(new, old):
                mixed = tf.where(real, new[num_real:], old[num_real:count])
                rows = tf.concat([new[:num_real], mixed, old[count:]], axis=0)
                return tf.ensure_shape(rows, old.shape)

            state = [merged(new, old) for new, old in zip(new_state, state, strict=True)]
            return token + 1, state, outputs

        _, state, outputs = tf.while_loop(
            lambda token, *_: token < self._num_tokens, body, (tf.constant(0), state, outputs)
        )
        places = self._starts[:, tf.newaxis] + self._places  # (token, batch)
        is_active = self._places < self._counts[:, tf.newaxis]
        # Row 0, all zeros, is the output of inactive rows.
        packed = tf.pad(outputs.concat(), [(1, 0), (0, 0)])
        outputs = tf.gather(packed, tf.where(is_active, places + 1, 0))
        state = [tf.gather(tensor, self._places) for tensor in state]
        return tf.ensure_shape(outputs, (*self._shape, packed.shape[-1])), state

    def _array(self, like: tf.Tensor) -> tf.TensorArray:
        shape = None, like.shape[-1]
        return tf.TensorArray(like.dtype, self._num_tokens, infer_shape=False, element_shape=shape)
