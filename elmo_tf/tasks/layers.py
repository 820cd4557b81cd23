"""Shared by task models: attention and pooling over the real tokens, and bidirectional LSTMs."""

from typing import Any

import keras
from keras import ops

from elmo_tf.layers.cell_rnn import CellRNN
from elmo_tf.layers.projected_lstm import ProjectedLSTM

# Below any score, and finite in float16 too, so that a row without tokens has no NaN.
MASKED_SCORE = -3e4


def masked_softmax(scores: Any, mask: Any, null_score: Any = None) -> Any:
    """Softmax over the real tokens of the last axis; zeros where there are none.

    With a null score `β`, attention may also go to no token, and the weights sum to less than 1:
    `p_j = exp(a_j) / (exp(β) + sum_k exp(a_k))`. The mask is broadcast to the scores.

    Source: the code of Clark and Gardner 2018 (document-qa), for the null score.
    """
    scores = ops.where(mask, scores, ops.cast(MASKED_SCORE, scores.dtype))
    if null_score is not None:  # the score of one more token
        null_scores = ops.broadcast_to(null_score, (*ops.shape(scores)[:-1], 1))
        return ops.softmax(ops.concatenate([scores, null_scores], axis=-1))[..., :-1]
    # `initial` allows an empty batch.
    highest = ops.max(scores, axis=-1, keepdims=True, initial=MASKED_SCORE)
    weights = ops.exp(scores - ops.stop_gradient(highest))
    weights = ops.where(mask, weights, ops.zeros_like(weights))
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights / ops.where(total > 0, total, ops.ones_like(total))


def soft_alignment(vectors: Any, others: Any, others_mask: Any) -> Any:
    """Aligns each token of a text with the tokens of another: `softmax(a · b') · b`.

    float (batch, token, feature), as `vectors`; zeros if the other text is empty.
    """
    scores = ops.matmul(vectors, ops.transpose(others, (0, 2, 1)))  # (batch, token, other token)
    return ops.matmul(masked_softmax(scores, others_mask[:, None, :]), others)


def masked_max(vectors: Any, mask: Any) -> Any:
    """The maximum of each feature over the tokens; zeros for a sentence without tokens.

    float (batch, token, feature), bool (batch, token) ─► float (batch, feature).
    """
    real = mask[..., None]
    vectors = ops.where(real, vectors, ops.cast(MASKED_SCORE, vectors.dtype))
    pooled = ops.max(vectors, axis=1, initial=MASKED_SCORE)  # `initial` allows an empty batch
    return ops.where(ops.any(real, axis=1), pooled, ops.zeros_like(pooled))


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiRNN(keras.layers.Layer):
    """A bidirectional recurrence, by default of an LSTM without projection or clipping.

    With cell "lstm", it is equivalent to `keras.layers.Bidirectional(keras.layers.LSTM(units,
    return_sequences=True))`, but faster to train on CPUs. It can also be used several times in a
    saved model, where Keras' wrapper may confuse the weights.

    Args:
        units: int >= 1. Width of each direction.
        cell: "gru", "highway_lstm" or "coupled_lstm", see `CellRNN`, or "lstm", a plain LSTM.
            Defaults to "lstm".
        dropout, learn_initial_state: see `CellRNN`; not for "lstm". Default to 0 and False.

    Call arguments:
        sequences: float (batch, token, feature).
        mask: bool (batch, token) or None. True = a real token. Defaults to None, all real.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, 2 · units): forward, then backward; zeros at masked tokens.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        units: int,
        cell: str = "lstm",
        dropout: float = 0.0,
        learn_initial_state: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if cell == "lstm" and (dropout or learn_initial_state):
            raise ValueError('`dropout` and `learn_initial_state` are not for cell "lstm".')
        self.units = units
        self.cell = cell
        self.dropout_rate = dropout
        self.learn_initial_state = learn_initial_state
        rnn, options = ProjectedLSTM, {}
        if cell != "lstm":
            options = {"cell": cell, "dropout": dropout, "learn_initial_state": learn_initial_state}
            rnn = CellRNN
        options |= {"units": units, "dtype": self.dtype_policy, "trainable": self.trainable}
        self.forward = rnn(**options, name="forward")
        self.backward = rnn(**options, go_backwards=True, name="backward")
        self.supports_masking = True

    def build(self, input_shape):
        self.forward.build(input_shape)
        self.backward.build(input_shape)

    def call(self, sequences, mask=None, training=False):
        forward = self.forward(sequences, mask=mask, training=training)
        backward = self.backward(sequences, mask=mask, training=training)
        if self.cell == "lstm":  # outputs the last token first
            backward = ops.flip(backward, axis=1)
        return ops.concatenate([forward, backward], axis=-1)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell,
            "dropout": self.dropout_rate,
            "learn_initial_state": self.learn_initial_state,
        }
