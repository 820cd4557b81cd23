"""ESIM: classifies sentence pairs, such as premise and hypothesis."""

from collections.abc import Sequence
from typing import ClassVar

import keras
from keras import layers, ops

from elmo_tf.layers.mean_over_tokens import masked_mean
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.classification.model import Classifier
from elmo_tf.tasks.layers import BiRNN, masked_max, soft_alignment
from elmo_tf.tasks.task_model import with_elmo


@keras.saving.register_keras_serializable(package="elmo_tf")
class ESIM(Classifier):
    """The enhanced sequential inference model, for sentence pairs.

    A biLSTM encodes each text `a`. Each of its tokens is aligned with the other text `b`,
    `ã_i = sum_j softmax_j(a_i · b_j) b_j`. A second biLSTM composes
    `relu([a; ã; a - ã; a ⊙ ã] · W + b)`. The mean and the maximum over the tokens of both texts go
    through a tanh layer. Both texts share all weights.

    Args:
        labels: the labels.
        embeddings, elmo, placement: see `TokenVectors`; "output" is the output of the first
            biLSTM.
        units: int >= 1. Width of each direction and of the dense layers. Defaults to the published
            300.
        dropout: float, 0 to below 1. Dropout rate before each layer except the alignment. Defaults
            to 0.5.

    Call arguments:
        inputs: a pair of batches (premises, hypotheses), or a dict with the keys "premise" and
            "hypothesis".

    Further call arguments, Returns, Raises: see `Classifier`.

    Source: Chen et al. 2017, section 3.
    """

    texts: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")

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
        self.encoder = BiRNN(units, dtype=dtype, name="encoder")
        self.projection = layers.Dense(units, activation="relu", dtype=dtype, name="projection")
        self.composition_dropout = layers.SpatialDropout1D(
            dropout, dtype=dtype, name="composition_dropout"
        )
        self.composition = BiRNN(units, dtype=dtype, name="composition")
        self.hidden_dropout = layers.Dropout(dropout, dtype=dtype, name="hidden_dropout")
        self.hidden = layers.Dense(units, activation="tanh", dtype=dtype, name="hidden")
        self.score_dropout = layers.Dropout(dropout, dtype=dtype, name="score_dropout")
        self.scores = layers.Dense(len(self.labels), dtype=dtype, name="scores")
        self._create_weights()

    def call(self, inputs, training=False):
        premise, hypothesis = (self._encoded(inputs, text, training) for text in self.texts)
        pooled = ops.concatenate(
            [
                self._composed(*premise, *hypothesis, training),
                self._composed(*hypothesis, *premise, training),
            ],
            axis=-1,
        )  # (batch, feature)
        hidden = self.hidden(self.hidden_dropout(pooled, training=training))
        return self.scores(self.score_dropout(hidden, training=training))

    def _encoded(self, inputs, text, training):
        """The encoded tokens of a text, float (batch, token, feature), and their mask."""
        vectors = self._vectors(inputs, text, training)
        mask = vectors["mask"]
        hidden = self.input_dropout(vectors["input"], training=training)
        hidden = self.encoder(hidden, mask=mask, training=training)
        hidden = with_elmo(hidden, vectors)
        return hidden, mask

    def _composed(self, vectors, mask, others, others_mask, training):
        """One text compared with the other, float (batch, feature)."""
        aligned = soft_alignment(vectors, others, others_mask)
        parts = [vectors, aligned, vectors - aligned, vectors * aligned]
        hidden = self.projection(ops.concatenate(parts, axis=-1))
        hidden = self.composition_dropout(hidden, training=training)
        hidden = self.composition(hidden, mask=mask, training=training)
        return ops.concatenate([masked_mean(hidden, mask), masked_max(hidden, mask)], axis=-1)
