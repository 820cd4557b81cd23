"""`fit`, `evaluate` and `predict` of task models: lists of strings, and several devices."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.text.corpus import prefetch
from elmo_tf.text.inputs import TO_LIST, checked, column_of_table, list_of_column
from elmo_tf.text.sentences import string_tensor

_BATCH_SIZE = 32  # as in Keras


class TextModel(keras.Model):
    """The `fit`, `evaluate` and `predict` of `TaskModel`, which has the other methods.

    Keras accepts no lists of strings: they become a dataset of batches. On several devices, to
    which Keras distributes no strings, its batches are preprocessed.
    """

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        **kwargs,
    ):
        if _is_array(x):
            x, y, sample_weight = self._tensors(x, y, sample_weight)
            if validation_split and validation_data is None:
                size = int(_num_examples((x, y, sample_weight)) * (1 - validation_split))
                validation_data = _rows((x, y, sample_weight), slice(size, None))
                x, y, sample_weight = _rows((x, y, sample_weight), slice(size))
        if validation_data is not None:
            size = kwargs.get("validation_batch_size") or batch_size
            validation_data = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation_data = self._batches(*validation_data, size)
        return super().fit(
            self._batches(x, y, sample_weight, batch_size, shuffle),
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_data=validation_data,
            shuffle=False,  # a dataset is shuffled already
            class_weight=class_weight and self._by_index(class_weight),
            **kwargs,
        )

    def evaluate(
        self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs
    ):
        batches = self._batches(x, y, sample_weight, batch_size)
        return super().evaluate(batches, verbose=verbose, **kwargs)

    def predict(self, x, batch_size=None, **kwargs):
        return super().predict(self._batches(x, batch_size=batch_size), **kwargs)

    def make_train_function(self, force=False):
        # If the optimizer is built in the first step, the step is traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)

    def train_step(self, data):
        return super().train_step(_of_unknown_size(data))

    def test_step(self, data):
        return super().test_step(_of_unknown_size(data))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.loss is not None:  # passed to `compile`
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.per_example_loss(y, y_pred, x)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, losses.dtype), (-1,))
            sizes = tf.size(weights), tf.size(losses)
            message = "`sample_weight` must have one weight per example. Weights and examples"
            losses *= checked(weights, sizes[0] == sizes[1], message, *sizes)
        total, count = tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype)
        penalties = tf.add_n([tf.cast(penalty, losses.dtype) for penalty in (0.0, *self.losses)])
        mean = total / tf.maximum(count, 1) + penalties
        replica = tf.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync == 1:
            return mean
        # Keras adds the gradients of all devices: together, those of the mean over all examples. It
        # reports the sum of the losses, each weighted by the number of the device's examples.
        num_devices = tf.cast(replica.num_replicas_in_sync, losses.dtype)
        all_examples = replica.all_reduce(tf.distribute.ReduceOp.SUM, count)
        share = total / tf.maximum(all_examples, 1) + penalties / num_devices
        return share + tf.stop_gradient(mean / num_devices - share)

    @property
    def _has_several_devices(self) -> bool:
        return self.distribute_strategy.num_replicas_in_sync > 1

    def _by_index(self, class_weight: Mapping[Any, float]) -> Mapping[int, float]:
        """`class_weight` with indices of labels as its keys."""
        raise ValueError("`class_weight` needs a model with one label per example.")

    def _tensors(self, x: Any, y: Any = None, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """Lists and columns as tensors."""
        named = {name: _as_tensor(values, name) for name, values in self._by_name(x).items()}
        if y is not None:
            y = self.targets(_as_tensor(y, "y"))
        if sample_weight is not None:
            sample_weight = _as_tensor(sample_weight, "sample_weight")
        return named, y, sample_weight

    def _batches(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        shuffle: bool = False,
    ) -> Any:
        """Examples as a dataset of batches, preprocessed on several devices; others unchanged."""
        if not _is_array(x):
            if y is not None or sample_weight is not None:
                raise ValueError("A dataset as `x` contains its `y` and `sample_weight`.")
            several = self._has_several_devices and isinstance(x, tf.data.Dataset)
            return prefetch(x.map(self.preprocess), 2) if several else x
        data = [part for part in self._tensors(x, y, sample_weight) if part is not None]
        order = tf.data.Dataset.range(_num_examples(data))
        if shuffle:
            order = order.shuffle(_num_examples(data))

        def batch(rows):
            parts = tf.nest.map_structure(lambda part: tf.gather(part, rows), data)
            return self.preprocess(*parts) if self._has_several_devices else tuple(parts)

        return prefetch(order.batch(batch_size or _BATCH_SIZE).map(batch), 2)


def _is_array(x: Any) -> bool:
    """Whether `x` contains all examples, and not batches of them, as a dataset does."""
    return isinstance(x, list | tuple | dict | tf.Tensor | tf.RaggedTensor) or any(
        hasattr(x, name) for name in (*TO_LIST, "columns")
    )


def _as_tensor(values: Any, name: str) -> Any:
    """Lists, arrays of strings and columns as a tensor; other arrays are unchanged."""
    values = column_of_table(values, name)
    if tf.is_tensor(values) or (isinstance(values, np.ndarray) and values.dtype.kind not in "OUST"):
        return values
    column = list_of_column(values)
    rows = values if column is None else column
    values = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    leaves = tf.nest.flatten(values)
    if not leaves or any(isinstance(leaf, str | bytes) for leaf in leaves):
        return string_tensor(values)
    lengths = {len(row) for row in values if isinstance(row, list | tuple)}
    return tf.ragged.constant(values) if len(lengths) > 1 else np.asarray(values)


def _of_unknown_size(data: Any) -> Any:
    """A batch whose number of examples is not static.

    If the number of batches is unknown, a step after the last batch fails to read it, but would
    first add a static number of examples to that of the mean loss.
    """

    def unsized(x: Any) -> Any:
        if not isinstance(x, tf.Tensor) or not x.shape.rank:
            return x
        return tf.compat.v1.placeholder_with_default(x, (None, *x.shape[1:]))

    return tf.nest.map_structure(unsized, data)


def _num_examples(data: Any) -> int:
    sizes = [part.shape[0] for part in tf.nest.flatten(data) if part is not None]
    if len(set(sizes)) > 1:
        raise ValueError(
            "`x`, `y` and `sample_weight` must have the same number of examples. "
            f"Received: {', '.join(map(str, sizes))}."
        )
    return sizes[0]


def _rows(data: Any, rows: slice) -> Any:
    return tf.nest.map_structure(lambda part: None if part is None else part[rows], data)
