"""SRLTagger: labels tokens with the semantic roles that they have for a predicate."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers, ops

from elmo_tf.layers.cell_rnn import CellRNN
from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.tag_schemes import constraints_of
from elmo_tf.tasks.tagging.crf import zero_weights
from elmo_tf.tasks.tagging.model import Tagger
from elmo_tf.tasks.task_model import with_elmo
from elmo_tf.tasks.text_model import NO_TAG
from elmo_tf.text.inputs import checked, count_tokens

_STDDEV = 0.01  # of the initial predicate embedding and output weights


@keras.saving.register_keras_serializable(package="elmo_tf")
class SRLTagger(Tagger):
    """Labels tokens with semantic roles: highway LSTMs of alternating directions, and a softmax.

    `x_t = [embeddings_t; ELMo_t; e(t = predicate)]`, `h^0 = x`, `h^l = highway_lstm(h^(l-1))`,
    `p_t = softmax(W · [h^L_t; ELMo_t] + b)`. The LSTMs l = 1, 3, … read forward, l = 2, 4, …
    backward; `placement` determines where ELMo is used. An example is a sentence and one predicate:
    a sentence with several predicates gives several examples. `PropositionTagger` finds the
    predicates of plain sentences.

    The loss of an example is `-sum_t log p_t(y_t)`. The prediction is the BIO sequence with
    the highest `sum_t log p_t(y_t)`. The published decoder also allows `I-X` as the first tag, and
    reads it as `B-X`; here a role always begins with `B-X`.

    Args:
        labels: BIO tags of the roles and of the predicate, such as `B-A0`, `I-A0`, `B-V` and `O`.
        embeddings, elmo, placement: see `TokenVectors`; "output" is the output of the last LSTM.
        units: int >= 1. Width of each LSTM. Defaults to the published 300.
        num_layers: int >= 1. Number of LSTMs. Defaults to the published 8.
        dropout: float, 0 to below 1. Rate of the recurrent dropout, see `CellRNN`. Defaults to the
            published 0.1.
        predicate_dim: int >= 1. Width of `e`, which has one vector for the predicate's token and
            one for all others. Defaults to the published 100.

    Call arguments:
        inputs: a pair of batches (sentences, predicates), or a dict with the keys "tokens" and
            "predicate"; see `TaskModel`. Predicates are int (batch,), the index of the predicate's
            token in its sentence; 0 for a sentence without tokens. For `y` in `fit`, see `Tagger`.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, label): scores before the softmax.

    Raises:
        ValueError: an argument is out of its range, a label is no BIO tag, a predicate is no token
            of its sentence (in a graph, `tf.errors.InvalidArgumentError` when it runs), or see
            `TaskModel`.

    Source: He et al. 2017, sections 2 and 3.
    """

    features: ClassVar[dict[str, tf.TensorSpec]] = {"predicate": tf.TensorSpec((None,), tf.int32)}

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 300,
        num_layers: int = 8,
        dropout: float = 0.1,
        predicate_dim: int = 100,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        self.settings = {
            "units": units,
            "num_layers": num_layers,
            "dropout": dropout,
            "predicate_dim": predicate_dim,
        }
        self.constraints = constraints_of(self.labels, "BIO")
        dtype = self.dtype_policy
        # Not an `Embedding`: optimizers square each of its sparse gradients before adding those of
        # the same row, and all tokens have one of two rows.
        self.predicate_embedding = layers.Dense(
            predicate_dim,
            use_bias=False,
            kernel_initializer=_small_normal(),
            dtype=dtype,
            name="predicate_embedding",
        )
        self.lstms = [
            CellRNN(
                *(units, "highway_lstm", dropout),
                go_backwards=index % 2 == 1,
                dtype=dtype,
                name=f"lstm_{index}",
            )
            for index in range(num_layers)
        ]
        set_attributes(self, "lstms", self.lstms)
        self.scores = layers.Dense(
            len(self.labels), kernel_initializer=_small_normal(), dtype=dtype, name="scores"
        )
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        mask = vectors["mask"]
        flags = _predicate_flags(inputs["predicate"], mask)
        parts = [vectors["input"], self.predicate_embedding(flags)]
        hidden = ops.concatenate(parts, axis=-1)
        for lstm in self.lstms:
            hidden = lstm(hidden, mask=mask, training=training)
        return self.scores(with_elmo(hidden, vectors))

    def per_example_loss(self, y, outputs, inputs=None):
        tags = self._checked_tags(y, outputs, inputs)
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.maximum(tags, 0), tf.cast(outputs, tf.float32), from_logits=True
        )  # (batch, token)
        return tf.reduce_sum(tf.where(tags == NO_TAG, 0.0, losses), axis=1)

    def sequence_weights(self):
        # Scores and `log p` rank sequences alike: they differ by a constant for each token.
        return zero_weights(len(self.labels), self.constraints, self.compute_dtype)


def _small_normal() -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=_STDDEV)


def _predicate_flags(predicates: Any, mask: tf.Tensor) -> tf.Tensor:
    """Whether a token is the predicate, one-hot: float (batch, token, 2); checks the predicates."""
    num_rows, num_tokens = tf.unstack(tf.shape(mask))
    message = "There must be one predicate for each sentence. Predicates and sentences"
    num_predicates = tf.size(predicates)  # a single one would be broadcast
    predicates = checked(predicates, num_predicates == num_rows, message, num_predicates, num_rows)
    lengths = count_tokens(mask)
    is_in_sentence = (predicates >= 0) & (predicates < tf.maximum(lengths, 1))
    message = "A predicate must be the index of a token of its sentence. Predicates and lengths"
    predicates = checked(predicates, tf.reduce_all(is_in_sentence), message, predicates, lengths)
    is_predicate = predicates[:, None] == tf.range(num_tokens)  # (batch, token)
    return ops.one_hot(ops.cast(is_predicate, "int32"), 2)
