"""The base classes of task models that predict labels."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.task_model import NO_TAG, TaskModel
from elmo_tf.text.inputs import checked
from elmo_tf.text.sentence_files import is_utf_8
from elmo_tf.text.vocabulary import StringTable

_UNKNOWN = -2  # a label that the model does not have


def check_distinct(names: Sequence[str], kind: str) -> None:
    """Checks that names are distinct and valid UTF-8."""
    for name in names:
        if not is_utf_8(name):
            raise ValueError(f"A {kind} is not valid UTF-8: {name!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"`{kind}s` has duplicates: {', '.join(names)}.")


class LabelModel(TaskModel):
    """The base class of task models that predict labels.

    Args:
        labels: distinct strings. The predicted labels, in the order of the outputs.
        embeddings, elmo, placement: see `TokenVectors`.

    Raises:
        ValueError: `labels` is empty or has duplicates or invalid UTF-8, or see `TokenVectors`.
    """

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(embeddings, elmo, placement, **kwargs)
        if isinstance(labels, str):
            raise TypeError(f"`labels` must be a list of strings. Received: {labels!r}")
        self.labels = tuple(labels)
        if not self.labels:
            raise ValueError("`labels` is empty. Pass at least one label.")
        check_distinct(self.labels, "label")
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        self._label_table = StringTable(self.labels, default=_UNKNOWN)

    def label_ids(self, labels: Iterable[str]) -> list[int]:
        """The indices of labels in `labels`.

        Raises:
            ValueError: a label is unknown.
        """
        try:
            return [self._label_ids[label] for label in labels]
        except KeyError as error:
            raise ValueError(
                f"The model has no label {error.args[0]!r}. Labels: {', '.join(self.labels)}."
            ) from None

    def targets(self, y):
        """The indices of labels in `labels`, int32. Indices are returned, and -1 for `""`.

        Raises:
            ValueError: a label is unknown (in a graph, `tf.errors.InvalidArgumentError` when it
                runs).
        """
        if isinstance(y, tf.RaggedTensor):
            return y.with_flat_values(self.targets(y.flat_values))
        y = tf.convert_to_tensor(y)
        if y.dtype != tf.string:
            return tf.cast(y, tf.int32)
        ids = tf.cast(self._label_table.table.lookup(y), tf.int32)
        ids = tf.where((ids == _UNKNOWN) & (y == ""), NO_TAG, ids)
        message = f"The model has only the labels {', '.join(self.labels)}. Received in `y`"
        unknown = tf.boolean_mask(y, ids == _UNKNOWN)
        return checked(ids, tf.size(unknown) == 0, message, unknown[:1])

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


class Classifier(LabelModel):
    """The base class of task models that predict one label per example.

    Call arguments:
        inputs, training: see `TaskModel`. In `fit`, `y` are labels, or their indices, (batch,).

    Returns:
        float (batch, label): scores before the softmax.

    Raises:
        ValueError: an argument is out of its range, or see `LabelModel`.
    """

    listed = ("label",)

    def _by_index(self, class_weight):
        names = [key for key in class_weight if isinstance(key, str)]
        ids = dict(zip(names, self.label_ids(names), strict=True))
        return {ids.get(key, key): weight for key, weight in class_weight.items()}

    def per_example_loss(self, y, outputs, inputs=None):
        y = self.targets(y)
        in_range = tf.reduce_all(tf.logical_and(y >= 0, y < len(self.labels)))
        message = f"`y` must be indices into `labels`, 0 to {len(self.labels) - 1}. Received"
        y = checked(y, in_range, message, y)
        scores = tf.cast(outputs, tf.float32)
        return keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)

    def decoded(self, outputs, inputs):
        """See `TaskModel`.

        Returns:
            A dict: "label", string (batch,); "probabilities", float (batch, label).
        """
        probabilities = tf.nn.softmax(tf.cast(outputs, tf.float32), axis=-1)
        names = tf.constant(self.labels)
        return {
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": probabilities,
        }

    def as_lists(self, predictions):
        return [label.decode("utf-8") for label in predictions["label"].numpy()]

    def classify(self, inputs: Any) -> list[str]:
        """Predicts the label of each example; see the call for `inputs`."""
        return self.predict_lists(inputs)
