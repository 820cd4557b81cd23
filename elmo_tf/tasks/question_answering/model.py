"""BiDAF with self-attention: finds the answer to a question in a passage."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers, ops

from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.layers import MASKED_SCORE, BiRNN, masked_softmax
from elmo_tf.tasks.task_model import TaskModel, with_elmo
from elmo_tf.text.inputs import checked, is_token


class TrilinearSimilarity(layers.Layer):
    """The similarity of each token `c_t` of a text to each token `q_j` of another.

    `a_tj = w_c · c_t + w_q · q_j + w_m · (c_t ⊙ q_j) + b`

    Source: Seo et al. 2017, section 2; the bias is that of Clark and Gardner 2018.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, vectors_shape, others_shape):
        self.kernel, self.other_kernel, self.product_kernel = (
            self.add_weight(name=name, shape=(vectors_shape[-1],), initializer="glorot_uniform")
            for name in ("kernel", "other_kernel", "product_kernel")
        )
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")

    def call(self, vectors, others):
        of_others = ops.tensordot(others, self.other_kernel, axes=1) + self.bias
        # One product for two terms: w_c · c_t + w_m · (c_t ⊙ q_j) = c_t · (w_c + w_m ⊙ q_j).
        weighted = self.kernel + self.product_kernel * others
        products = ops.matmul(vectors, ops.transpose(weighted, (0, 2, 1)))
        return products + of_others[:, None, :]  # (batch, token, other token)


@keras.saving.register_keras_serializable(package="elmo_tf")
class BiDAF(TaskModel):
    """Bidirectional attention flow with self-attention, for questions about a passage.

    An answer is a span of the passage, from its first to its last token. `d` is dropout with one
    mask for all tokens of a text, `a` a trilinear similarity (see `TrilinearSimilarity`), and both
    texts share the encoder:

    Encoder: `c = [d(biGRU(d(passage))); ELMo]`, and `q` of the question likewise.

    Attention: `p_tj = softmax_j(a_tj)`, `q̃_t = sum_j p_tj q_j`, `s_t = softmax_t(max_j a_tj)`,
    `c̃ = sum_t s_t c_t`, `v_t = relu([c_t; q̃_t; c_t ⊙ q̃_t; c_t ⊙ c̃] · W_1 + b_1)`.

    Self-attention: `r = d(biGRU(d(v)))`, `r̃_t = sum_k p'_tk r_k` with
    `p'_tk = exp(a'_tk) / (exp(β) + sum_l exp(a'_tl))` over k, l ≠ t, and
    `z = d(v + relu([r̃; r; r̃ ⊙ r] · W_2 + b_2))`.

    Scores: `m_1 = biGRU(z)`, `start = w_s · m_1 + b_s`; `m_2 = biGRU([z; m_1])`,
    `end = w_e · m_2 + b_e`.

    Args:
        embeddings, elmo, placement: see `TokenVectors`; "output" is the output of the encoder's
            biGRU.
        units: int >= 1. Width of each direction of the biGRUs. `v` is twice as wide. Defaults to
            the published 90.
        dropout: float, 0 to below 1. Dropout rate. Defaults to 0.2.
        max_answer: int >= 1. Number of tokens of the longest predicted answer. Does not affect
            training. Defaults to 17.

    Call arguments:
        inputs: a pair of batches (passages, questions), or a dict with the keys "passage" and
            "question"; see `TaskModel`. In `fit`, `y` is int (batch, 2), the first and the last
            token of each answer. Metrics compare both with those of the predicted answer, one-hot.
        training: bool. Defaults to False.

    Returns:
        float (batch, 2, token): the scores of each token of the passage as the first (0) and as the
        last (1) token of the answer. Those of masked tokens are so low that a softmax over the
        tokens is 0 there.

    Raises:
        ValueError: an argument is out of its range, or see `TaskModel`.

    Source: Seo et al. 2017; Peters et al. 2018, supplement; Clark and Gardner 2018 and their code
        (document-qa), the source of the biGRUs of the scores and of the null score β.
    """

    texts: ClassVar[tuple[str, ...]] = ("passage", "question")
    listed = ("answer_start", "answer_end")
    shared_settings: ClassVar[tuple[str, ...]] = ("max_answer",)

    def __init__(
        self,
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: int = 90,
        dropout: float = 0.2,
        max_answer: int = 17,
        **kwargs,
    ):
        super().__init__(embeddings, elmo, placement, **kwargs)
        if max_answer < 1:
            raise ValueError(f"`max_answer` must be at least 1. Received: {max_answer!r}")
        self.settings = {"units": units, "dropout": dropout, "max_answer": max_answer}
        dtype = self.dtype_policy
        self.dropout = layers.SpatialDropout1D(dropout, dtype=dtype, name="dropout")
        self.encoder, self.match_encoder, self.start_encoder, self.end_encoder = (
            BiRNN(units, cell="gru", dtype=dtype, name=f"{name}encoder")
            for name in ("", "match_", "start_", "end_")
        )
        self.similarity, self.self_similarity = (
            TrilinearSimilarity(dtype=dtype, name=f"{name}similarity") for name in ("", "self_")
        )
        self.null_score = self.add_weight(
            name="null_score", shape=(), initializer=keras.initializers.Constant(-1.0)
        )
        self.projection, self.self_projection = (
            layers.Dense(2 * units, activation="relu", dtype=dtype, name=f"{name}projection")
            for name in ("", "self_")
        )
        self.start_score, self.end_score = (
            layers.Dense(1, dtype=dtype, name=f"{name}_score") for name in ("start", "end")
        )
        self._create_weights()

    def call(self, inputs, training=False):
        passage, mask = self._encoded(inputs, "passage", training)
        question, question_mask = self._encoded(inputs, "question", training)
        hidden = self._attended(passage, mask, question, question_mask)
        hidden = hidden + self._self_attended(hidden, mask, training)
        hidden = self.dropout(hidden, training=training)
        of_start = self.start_encoder(hidden, mask=mask, training=training)
        of_end = ops.concatenate([hidden, of_start], axis=-1)
        of_end = self.end_encoder(of_end, mask=mask, training=training)
        scores = [self.start_score(of_start), self.end_score(of_end)]  # (batch, token, 1)
        scores = ops.transpose(ops.concatenate(scores, axis=-1), (0, 2, 1))  # (batch, 2, token)
        return ops.where(mask[:, None, :], scores, ops.cast(MASKED_SCORE, scores.dtype))

    def _encoded(self, inputs, text, training):
        """The encoded tokens of a text, float (batch, token, feature), and their mask."""
        vectors = self._vectors(inputs, text, training)
        mask = vectors["mask"]
        hidden = self.dropout(vectors["input"], training=training)
        hidden = self.encoder(hidden, mask=mask, training=training)
        hidden = self.dropout(hidden, training=training)
        return with_elmo(hidden, vectors), mask

    def _attended(self, passage, mask, question, question_mask):
        """`v`, the passage compared with the question, float (batch, token, 2 · units)."""
        scores = self.similarity(passage, question)  # (batch, token, question token)
        question_mask = question_mask[:, None, :]
        aligned = ops.matmul(masked_softmax(scores, question_mask), question)
        relevance = ops.where(question_mask, scores, ops.cast(MASKED_SCORE, scores.dtype))
        relevance = ops.max(relevance, axis=-1, initial=MASKED_SCORE)  # allows an empty batch
        relevance = masked_softmax(relevance, mask)  # (batch, token)
        summary = ops.matmul(relevance[:, None, :], passage)  # (batch, 1, feature)
        parts = [passage, aligned, passage * aligned, passage * summary]
        return self.projection(ops.concatenate(parts, axis=-1))

    def _self_attended(self, hidden, mask, training):
        """`v` compared with the other tokens of the passage, float (batch, token, 2 · units)."""
        hidden = self.dropout(hidden, training=training)
        hidden = self.match_encoder(hidden, mask=mask, training=training)
        hidden = self.dropout(hidden, training=training)
        scores = self.self_similarity(hidden, hidden)  # (batch, token, token)
        is_other = ops.logical_not(ops.eye(ops.shape(mask)[1], dtype="bool"))
        weights = masked_softmax(
            scores, ops.logical_and(mask[:, None, :], is_other), self.null_score
        )
        aligned = ops.matmul(weights, hidden)
        return self.self_projection(ops.concatenate([aligned, hidden, aligned * hidden], axis=-1))

    def per_example_loss(self, y, outputs, inputs=None):
        y = tf.ensure_shape(tf.cast(y, tf.int32), (None, 2))
        first, last = y[:, 0], y[:, 1]
        scores = tf.cast(outputs, tf.float32)
        lengths = tf.math.count_nonzero(_is_real(scores), axis=1, dtype=tf.int32)
        is_inside = tf.reduce_all((first >= 0) & (first <= last) & (last < tf.maximum(lengths, 1)))
        message = (
            "`y` must be the first and the last token of each answer, within its passage. "
            "Tokens of the passages, first and last tokens"
        )
        y = checked(y, is_inside, message, lengths, first, last)
        losses = keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)
        return tf.reduce_sum(losses, axis=-1)  # of the first and of the last token

    def for_metrics(self, y, outputs, sample_weight):
        first, last, _ = best_spans(outputs, _is_real(outputs), self.settings["max_answer"])
        span = tf.one_hot(tf.stack([first, last], axis=1), tf.shape(outputs)[2])
        return y, span, sample_weight

    def decoded(self, outputs, inputs):
        """See `TaskModel`.

        Returns:
            A dict: "answer_start" and "answer_end", int32 (batch,), the first and the last token of
            the answer; "answer", string (batch,), its tokens joined by spaces; "probability",
            float32 (batch,), of the answer among all spans of at most `max_answer` tokens. For a
            passage without tokens: 0, 0, `""` and 0.
        """
        tokens = inputs["passage"]
        start, end, probability = best_spans(outputs, is_token(tokens), self.settings["max_answer"])
        index = tf.range(tf.shape(tokens)[1])
        is_inside = (index >= start[:, None]) & (index <= end[:, None])
        answer = tf.strings.reduce_join(tf.where(is_inside, tokens, ""), axis=1, separator=" ")
        answer = tf.strings.strip(answer)
        places = {"answer_start": start, "answer_end": end}
        return {**places, "probability": probability, "answer": answer}

    def answer_spans(self, inputs: Any) -> list[tuple[int, int]]:
        """Predicts the first and the last token of each answer; (0, 0) without tokens."""
        return self.predict_lists(inputs)

    def as_lists(self, predictions):
        starts, ends = (predictions[name].numpy().tolist() for name in self.listed)
        return list(zip(starts, ends, strict=True))


def _is_real(scores: tf.Tensor) -> tf.Tensor:
    """Whether a token of the passage is real, by the outputs of the call: bool (batch, token)."""
    return scores[:, 0] > MASKED_SCORE / 2


def best_spans(scores: Any, mask: tf.Tensor, max_answer: int) -> tuple[tf.Tensor, ...]:
    """The span of at most `max_answer` tokens with the highest `start[s] + end[e]` of each row.

    `scores`, (batch, 2, token), are those of the call. Returns the first and the last token, int32
    (batch,), and the probability of the span by a softmax over all allowed ones, float32 (batch,);
    0 for a row without tokens.
    """
    scores = tf.cast(scores, tf.float32)
    num_rows, num_tokens = tf.unstack(tf.shape(mask))
    # Spans are a grid (token, offset): from each token, to each of the next `max_answer` tokens.
    ends = tf.range(num_tokens)[:, None] + tf.range(max_answer)
    exists = ends < num_tokens
    ends = tf.where(exists, ends, 0)
    allowed = exists & tf.gather(mask, ends, axis=1)  # (batch, token, offset)
    sums = scores[:, 0, :, None] + tf.gather(scores[:, 1], ends, axis=1)
    flat = (num_rows, num_tokens * max_answer)
    sums, allowed = tf.reshape(sums, flat), tf.reshape(allowed, flat)
    best = tf.argmax(tf.where(allowed, sums, MASKED_SCORE), axis=1, output_type=tf.int32)
    start = best // max_answer
    probability = tf.gather(masked_softmax(sums, allowed), best, batch_dims=1)
    return start, start + best % max_answer, probability
