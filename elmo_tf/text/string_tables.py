"""Lookup tables from strings to ids."""

from collections.abc import Sequence

import tensorflow as tf

from elmo_tf.text.sentences import encode


class StringTable:
    """Ids of strings in the graph: the position of each in a list.

    Args:
        strings: without duplicates, see `encode`.
        default: int. The id of all other strings.
    """

    def __init__(self, strings: Sequence[str], default: int):
        self._strings = strings
        self._default = default
        self._eager: tf.lookup.StaticHashTable | None = None

    @property
    def table(self) -> tf.lookup.StaticHashTable:
        """TensorFlow's table: one for eager code and its functions, and one per TF1 graph."""
        with tf.init_scope():
            if tf.executing_eagerly():
                if self._eager is None:
                    self._eager = self._new()
                return self._eager
            # Stored in the graph, so that the table and the graph have the same lifetime.
            tables = tf.compat.v1.get_default_graph().get_collection_ref(self)
            if not tables:
                tables.append(self._new())
            return tables[0]

    def _new(self) -> tf.lookup.StaticHashTable:
        keys = tf.constant([encode(string) for string in self._strings])
        values = tf.range(len(self._strings), dtype=tf.int64)
        return tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), default_value=self._default
        )

    def __getstate__(self) -> dict:
        # Tables cannot be copied; a copy creates its own.
        return {**self.__dict__, "_eager": None}
