"""BCN and a biLSTM baseline: models that classify sentences."""

import collections
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from elmo_tf.layers.scalar_mix import masked_mean
from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.layers import BiRNN, masked_max, masked_softmax, soft_alignment
from elmo_tf.tasks.task_model import LabelModel, with_elmo

_LOWEST = -1e30  # below any output of a layer
_PIECES = 4  # linear functions of a maxout layer


class Classifier(LabelModel):
    """The base class of task models that predict one label per example.

    Call arguments:
        inputs, training: see `TaskModel`. In `fit`, `y` are labels, or their indices, (batch,).

    Returns:
        float (batch, label): scores before the softmax.

    Raises:
        ValueError: an argument is out of its range, or see `TokenVectors`.
    """

    listed = ("label", "probabilities")

    def targets(self, y):
        y = super().targets(y)
        if y.shape.rank == 2 and y.shape[1] == 1:
            return y[:, 0]
        if y.shape.rank not in (None, 1):
            raise ValueError(f"`y` must be labels or their indices, (batch,). Received: {y.shape}.")
        return y

    def _by_index(self, class_weight, y):
        if isinstance(class_weight, str):
            if class_weight != "balanced" or y is None:
                raise ValueError(
                    "`class_weight` must be a dict of labels, or with arrays 'balanced'. "
                    f"Received: {class_weight!r}"
                )
            return balanced_weights(np.ravel(y).tolist())
        names = [key for key in class_weight if isinstance(key, str)]
        ids = dict(zip(names, self.label_ids(names), strict=True))
        weights = {ids.get(key, key): weight for key, weight in class_weight.items()}
        return dict.fromkeys(range(len(self.labels)), 1.0) | weights

    def per_example_loss(self, y, outputs, inputs=None):
        scores = tf.cast(outputs, tf.float32)
        y = self.targets(y)
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


def balanced_weights(labels: Sequence[Any]) -> dict[Any, float]:
    """A weight for each label, inversely proportional to its frequency; 1 on average."""
    counts = collections.Counter(labels)
    return {label: len(labels) / (len(counts) * count) for label, count in counts.items()}


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiLSTMClassifier(Classifier):
    """Classifies sentences: a biLSTM, max pooling and a linear layer.

    `[embeddings; ELMo] ─► biLSTM ─► [; ELMo] ─► max over tokens ─► label`, with dropout before the
    biLSTM and the linear layer.

    Args:
        labels: the labels.
        embeddings, elmo, placement: see `TokenVectors`.
        units: int >= 1. Width of each direction. Defaults to 300.
        dropout: float, 0 to below 1. Defaults to 0.5.

    Call arguments, Returns, Raises: see `Classifier`.
    """

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 300,
        dropout: float = 0.5,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        dtype = self.dtype_policy
        self.settings = {"units": units, "dropout": dropout}
        self.input_dropout = layers.SpatialDropout1D(dropout, dtype=dtype, name="input_dropout")
        self.lstm = BiRNN(units, dtype=dtype, name="bilstm")
        self.output_dropout = layers.Dropout(dropout, dtype=dtype, name="output_dropout")
        self.scores = layers.Dense(len(self.labels), dtype=dtype, name="scores")
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        hidden = self.input_dropout(vectors["input"], training=training)
        hidden = self.lstm(hidden, mask=vectors["mask"], training=training)
        pooled = masked_max(with_elmo(hidden, vectors), vectors["mask"])  # (batch, feature)
        return self.scores(self.output_dropout(pooled, training=training))


@keras.saving.register_keras_serializable(package="elmo_tf")
class BCN(Classifier):
    """The biattentive classification network for single sentences.

    `x = biLSTM(relu([embeddings; ELMo] · W + b))`, `c = softmax(x · x') · x` (biattention),
    `y = [biLSTM([x; x - c; x ⊙ c]); ELMo]` (integration), `p = [max y; mean y; min y; sum_t a_t
    y_t]` with `a = softmax(y · v)` (pooling), and three layers of maxout.

    The published network reads two texts (twice the same for a single sentence), with separate
    weights for integration and pooling. This one does both once, as AllenNLP's implementation does.

    Args:
        labels: the labels.
        embeddings, elmo, placement: see `TokenVectors`.
        units: int >= 1. Width of the first layer and of each direction. Defaults to the published
            300.
        reduction: int >= 1. The first maxout has the width `8 · units / reduction`, the second half
            of it. Defaults to 2.
        dropout: float, 0 to below 1. Dropout rate of the token vectors. Defaults to 0.5.
        maxout_dropout: float, 0 to below 1. Dropout rate before each maxout. Defaults to 0.2.
        batch_norm: bool. Whether to normalize the input of each maxout over the batch, as
            published. With the 8,544 sentences of SST-5 it hurts: in the third epoch (150 units)
            the loss was 1.68 with it and 1.49 without. Defaults to False.

    Call arguments, Returns, Raises: see `Classifier`.

    Source: McCann et al. 2017, section 4.
    """

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 300,
        reduction: int = 2,
        dropout: float = 0.5,
        maxout_dropout: float = 0.2,
        batch_norm: bool = False,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        dtype = self.dtype_policy
        self.settings = {
            "units": units,
            "reduction": reduction,
            "dropout": dropout,
            "maxout_dropout": maxout_dropout,
            "batch_norm": batch_norm,
        }
        self.input_dropout = layers.Dropout(dropout, dtype=dtype, name="input_dropout")
        self.feed_forward = layers.Dense(units, activation="relu", dtype=dtype, name="feed_forward")
        self.encoder = BiRNN(units, dtype=dtype, name="encoder")
        self.integrator = BiRNN(units, dtype=dtype, name="integrator")
        self.attention_scores = layers.Dense(1, dtype=dtype, name="attention_scores")
        width = max(8 * units // reduction, 1)  # four pooled vectors of two directions
        widths = (width, max(width // 2, 1), len(self.labels))
        self.maxouts = [
            Maxout(each, dtype=dtype, name=f"maxout_{i}") for i, each in enumerate(widths)
        ]
        # A low momentum, because small data has few steps.
        self.norms = [
            layers.BatchNormalization(momentum=0.9, dtype=dtype, name=f"norm_{i}")
            for i in range(len(widths) if batch_norm else 0)
        ]
        self.maxout_dropouts = [layers.Dropout(maxout_dropout, dtype=dtype) for _ in widths]
        set_attributes(self, "maxouts", self.maxouts)
        set_attributes(self, "norms", self.norms)
        set_attributes(self, "maxout_dropouts", self.maxout_dropouts)
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        mask = vectors["mask"]
        hidden = self.feed_forward(self.input_dropout(vectors["input"], training=training))
        encoded = self.encoder(hidden, mask=mask, training=training)  # (batch, token, feature)
        context = soft_alignment(encoded, encoded, mask)
        joined = ops.concatenate([encoded, encoded - context, encoded * context], axis=-1)
        integrated = self.integrator(joined, mask=mask, training=training)
        features = self._pooled(with_elmo(integrated, vectors), mask)  # (batch, feature)
        for index, maxout in enumerate(self.maxouts):
            if self.norms:
                features = self.norms[index](features, training=training)
            features = maxout(self.maxout_dropouts[index](features, training=training))
        return features

    def _pooled(self, vectors, mask):
        weights = masked_softmax(self.attention_scores(vectors)[..., 0], mask)  # (batch, token)
        attended = ops.sum(weights[..., None] * vectors, axis=1)
        least = -masked_max(-vectors, mask)
        parts = [masked_max(vectors, mask), masked_mean(vectors, mask), least, attended]
        return ops.concatenate(parts, axis=-1)


class Maxout(layers.Layer):
    """The maximum of four linear functions, `max_k (x · W_k + b_k)`.

    Args:
        units: int >= 1. Width of the output.

    Call arguments:
        inputs: float (…, feature).

    Returns:
        float (…, units).

    Source: Goodfellow et al. 2013.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.pieces = layers.Dense(units * _PIECES, dtype=self.dtype_policy, name="pieces")

    def build(self, input_shape):
        self.pieces.build(input_shape)

    def call(self, inputs):
        pieces = self.pieces(inputs)
        shape = (*ops.shape(pieces)[:-1], self.units, _PIECES)
        # `initial` allows an empty batch.
        return ops.max(ops.reshape(pieces, shape), axis=-1, initial=_LOWEST)
