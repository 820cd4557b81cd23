"""BiLSTMClassifier: a baseline model that classifies sentences."""

from collections.abc import Sequence

import keras
from keras import ops

from elmo_tf.config_checks import check_rate
from elmo_tf.models.layer_mixes import LayerMixes
from elmo_tf.tasks.bilstm import BiLSTM
from elmo_tf.tasks.pooling import masked_max
from elmo_tf.tasks.task_model import Classifier


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

    Call arguments:
        inputs, training: see `TaskModel`. In `fit`, `y` is int (batch,), indices into `labels`.

    Returns:
        float (batch, label): scores before the softmax.

    Raises:
        ValueError: see `TaskModel`.
    """

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer] = (),
        elmo: LayerMixes | None = None,
        placement: str = "input",
        units: int = 300,
        dropout: float = 0.5,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        check_rate(dropout, "dropout")
        dtype = self.dtype_policy
        self.settings = {"units": units, "dropout": dropout}
        self.input_dropout = keras.layers.SpatialDropout1D(
            dropout, dtype=dtype, name="input_dropout"
        )
        self.lstm = BiLSTM(units, dtype=dtype, name="bilstm")
        self.output_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="output_dropout")
        self.scores = keras.layers.Dense(len(self.labels), dtype=dtype, name="scores")
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        hidden = self.input_dropout(vectors["input"], training=training)
        hidden = self.lstm(hidden, mask=vectors["mask"], training=training)
        if "output" in vectors:
            hidden = ops.concatenate([hidden, vectors["output"]], axis=-1)
        pooled = masked_max(hidden, vectors["mask"])  # (batch, feature)
        return self.scores(self.output_dropout(pooled, training=training))
