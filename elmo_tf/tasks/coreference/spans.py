"""The spans of a document: tokens ─► scores of all candidates ─► the kept ones, and their vectors.

Spans form a grid (token, width): the span in cell (i, w) is the tokens i … i + w.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import layers, ops

from elmo_tf.tasks.layers import masked_softmax

# An undecided candidate has its rank, from 1 for the best; a decided one has one of these values.
_KEPT, _DROPPED = 0, tf.int32.max


def candidates(sentences: tf.Tensor, max_width: int) -> tf.Tensor:
    """Which spans are within a sentence, bool (token, width).

    `sentences`: int32 (token,). The sentence of each token, in increasing order.
    """
    following = tf.pad(sentences, [[0, max_width - 1]], constant_values=-1)
    last = tf.range(tf.size(sentences))[:, None] + tf.range(max_width)
    return tf.gather(following, last) == sentences[:, None]


class SpanScores(layers.Layer):
    """The mention score of every span of the grid.

    `alpha_t = w · x*_t + b`, `a_t = softmax_{i <= t <= j}(alpha_t)`, `x̂_ij = sum_t a_t x_t`,
    `g_ij = [x*_i; x*_j; phi(j - i); x̂_ij]`, `s_m(i, j) = FFNN(g_ij)`

    `g` is not computed for all spans: the first product of the network is split by its parts, and
    `x̂_ij · W = sum_t a_t (x_t · W)`.

    `phi` is the embedding of the span's width. For the arguments see `CoreferenceModel`.

    The call takes the input vectors `x`, (token, feature), and the outputs `x*` of the encoder. It
    returns the scores, (token, width), arbitrary for spans that are not candidates; the weights `a`
    of the tokens of each span, (token, width, max_width); and `phi` after dropout.

    Source: Lee et al. 2017, sections 4 and 5.
    """

    def __init__(
        self, max_width: int, hidden_units: int, feature_dim: int, dropout: float, **kwargs
    ):
        super().__init__(**kwargs)
        if max_width < 1:
            raise ValueError(f"`max_width` must be at least 1. Received: {max_width!r}")
        self.widths_shape = (max_width, feature_dim)
        dtype = self.dtype_policy
        self.head_scores = layers.Dense(1, dtype=dtype, name="head_scores")
        self.width_dropout = layers.Dropout(dropout, dtype=dtype, name="width_dropout")
        self.network = ScoringNetwork(hidden_units, dropout, dtype=dtype, name="network")

    def build(self, x_shape, encoded_shape):
        self.width_embedding = self.add_weight(
            name="width_embedding", shape=self.widths_shape, initializer="glorot_uniform"
        )
        self.head_scores.build(encoded_shape)
        self.network.build([encoded_shape, encoded_shape, self.widths_shape, x_shape])

    def call(self, x, encoded, training=False):
        max_width, feature_dim = self.width_embedding.shape
        tokens = _window_tokens(tf.shape(x)[0], max_width)
        alpha = tf.gather(self.head_scores(encoded)[:, 0], tokens)[:, None]
        is_in_span = tf.linalg.band_part(tf.ones((max_width, max_width), tf.bool), -1, 0)
        heads = masked_softmax(alpha, is_in_span)  # (token, width, max_width)
        shape = (*tf.unstack(tf.shape(tokens)), feature_dim)
        widths = tf.broadcast_to(ops.convert_to_tensor(self.width_embedding), shape)
        widths = self.width_dropout(widths, training=training)
        last = tf.gather(self.network.product(1, encoded), tokens)
        head = tf.matmul(heads, tf.gather(self.network.product(3, x), tokens))
        products = self.network.product(0, encoded)[:, None] + last
        products += self.network.product(2, widths) + head  # (token, width, hidden)
        return self.network(products, training=training), heads, widths


def span_vectors(
    x: tf.Tensor, encoded: tf.Tensor, heads: tf.Tensor, widths: tf.Tensor, spans: tf.Tensor
) -> tf.Tensor:
    """The vectors `g` of some spans, float (span, feature); for the arguments see `SpanScores`.

    `spans`: int32 (span,). Cells of the grid, `token * max_width + width`.
    """
    max_width = heads.shape[1]
    first, width = spans // max_width, spans % max_width
    cells = tf.stack([first, width], axis=-1)
    tokens = tf.gather(_window_tokens(tf.shape(x)[0], max_width), first)  # (span, max_width)
    head = tf.matmul(tf.gather_nd(heads, cells)[:, None], tf.gather(x, tokens))[:, 0]
    encoded_first, encoded_last = tf.gather(encoded, first), tf.gather(encoded, first + width)
    return tf.concat([encoded_first, encoded_last, tf.gather_nd(widths, cells), head], axis=-1)


def _window_tokens(num_tokens: Any, max_width: int) -> tf.Tensor:
    """The tokens from each token on, int32 (token, max_width); at the end, the last one again."""
    tokens = tf.range(num_tokens)[:, None] + tf.range(max_width)
    return tf.minimum(tokens, num_tokens - 1)


def kept_spans(scores: tf.Tensor, is_candidate: tf.Tensor, num_spans: tf.Tensor) -> tf.Tensor:
    """Keeps the best spans, in order of decreasing score, without those that cross a kept one.

    Two spans cross if they share a token, and each has a token that the other has not. Of equal
    scores, the earlier and then the shorter span is the better one. `num_spans` is the maximum
    number of kept spans. Returns the cells of the kept spans, see `span_vectors`, in increasing
    order: sorted by (first, last) token.

    Source: Lee et al. 2017, section 5.
    """
    flat = tf.reshape(tf.where(is_candidate, scores, scores.dtype.min), [-1])
    order = tf.math.top_k(flat, k=tf.size(flat)).indices  # of equal scores, the first is first
    ranks = tf.reshape(tf.math.invert_permutation(order) + 1, tf.shape(scores))
    is_kept = _not_crossing(tf.where(is_candidate, ranks, _DROPPED))
    in_order = tf.boolean_mask(order, tf.gather(tf.reshape(is_kept, [-1]), order))
    return tf.sort(in_order[:num_spans])


def _not_crossing(ranks: tf.Tensor) -> tf.Tensor:
    """Whether a candidate is kept if there is no maximum number, bool (token, width).

    The result is that of a loop over the candidates in order of rank, but each round decides many:
    a candidate is dropped if a kept one crosses it, and kept if all that cross it are worse or
    dropped. Each round decides at least the best undecided candidate, so the loop ends, usually
    after about 12 rounds.
    """
    max_width = ranks.shape[1]
    # The other span begins `shift` tokens after the first token of a span, and ends `end` after it.
    width, shift, other_width = np.ogrid[:max_width, 1 - max_width : max_width, :max_width]
    end = shift + other_width
    crosses = (shift > 0) & (shift <= width) & (end > width)
    crosses |= (shift < 0) & (end >= 0) & (end < width)
    # Ranks of other spans are raised to this one, (width, shift, other width), before the minimum.
    least = np.where(crosses, _KEPT, _DROPPED).astype(np.int32)
    margin = max_width - 1
    nearby = tf.range(tf.shape(ranks)[0])[:, None] + tf.range(margin + max_width)

    def is_undecided(ranks):
        return (ranks > _KEPT) & (ranks < _DROPPED)

    def decide(ranks):
        others = tf.pad(ranks, [[margin, margin], [0, 0]], constant_values=_DROPPED)
        others = tf.gather(others, nearby)[:, None]  # (token, 1, shift, other width)
        best_crossing = tf.reduce_min(tf.maximum(others, least), axis=[2, 3])
        dropped = is_undecided(ranks) & (best_crossing == _KEPT)
        kept = is_undecided(ranks) & (ranks < best_crossing)
        return [tf.where(dropped, _DROPPED, tf.where(kept, _KEPT, ranks))]

    ranks = tf.while_loop(lambda ranks: tf.reduce_any(is_undecided(ranks)), decide, [ranks])[0]
    return ranks == _KEPT


class ScoringNetwork(layers.Layer):
    """A score of a concatenation `[p_1; …; p_n]`, from two hidden layers.

    `w · relu(W_2 · relu(W_1 · [p_1; …; p_n] + b_1) + b_2) + b`, with dropout after each ReLU.

    The first product is `sum_i W_1i · p_i`, where `W_1i` are the columns of `W_1` for part i. The
    call takes this sum, and `product` computes its terms, so that a part that many concatenations
    share is multiplied only once. Call `build` with the shapes of the parts first.
    """

    def __init__(self, units: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        dtype = self.dtype_policy
        self.first_dropout = layers.Dropout(dropout, dtype=dtype, name="first_dropout")
        self.hidden = layers.Dense(units, activation="relu", dtype=dtype, name="hidden")
        self.hidden_dropout = layers.Dropout(dropout, dtype=dtype, name="hidden_dropout")
        self.score = layers.Dense(1, dtype=dtype, name="score")

    def build(self, part_shapes: Sequence[tuple]):
        self.part_dims = [shape[-1] for shape in part_shapes]
        self.kernel = self.add_weight(
            name="kernel", shape=(sum(self.part_dims), self.units), initializer="glorot_uniform"
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.hidden.build((None, self.units))
        self.score.build((None, self.units))

    def product(self, index: int, part: Any) -> Any:
        """`W_1i · p_i` for part `index`, float (…, feature): float (…, units)."""
        start = sum(self.part_dims[:index])
        return ops.matmul(part, self.kernel[start : start + self.part_dims[index]])

    def call(self, products, training=False):
        hidden = self.first_dropout(ops.relu(products + self.bias), training=training)
        hidden = self.hidden_dropout(self.hidden(hidden), training=training)
        return self.score(hidden)[..., 0]
