"""Kept spans ─► scores of their antecedents, entities, and the likelihood of gold entities."""

from typing import Any

import tensorflow as tf
from keras import layers, ops

from elmo_tf.tasks.coreference.spans import ScoringNetwork
from elmo_tf.tasks.layers import MASKED_SCORE

# The least distance of each bucket, from the second.
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
# Spans that are scored at once, which bounds the memory of long documents in inference.
_BLOCK = 32


def antecedents_of(spans: tf.Tensor, max_antecedents: tf.Tensor) -> tf.Tensor:
    """The antecedents of spans: those before them, the nearest first, negative where there is none.

    int32 (span,), int32 () ─► int32 (span, antecedent): indices of spans.
    """
    return spans[:, None] - 1 - tf.range(max_antecedents)


class AntecedentScores(layers.Layer):
    """The antecedent score of each span with those before it.

    `s_a(n, a) = FFNN([g_n; g_a; g_n ⊙ g_a; phi(n, a)])`

    `phi` are embeddings of whether both spans have the same known speaker, of the genre, and of the
    distance in spans: 0, 1, 2, 3, 4, 5–7, 8–15, 16–31, 32–63, 64 and more. With 0 for `num_genres`,
    it omits the genre. For the other arguments see `CoreferenceModel`.

    The call takes the vectors `g` of the spans, in order; their speakers, int32 (span,), negative
    for unknown; and the genre, int32 (1,). It returns the scores of `antecedents_of` the spans,
    float32 (span, antecedent), which are arbitrary where there is none.

    Source: Lee et al. 2017, sections 4 and 5.
    """

    def __init__(
        self,
        max_antecedents: int,
        hidden_units: int,
        feature_dim: int,
        num_genres: int,
        dropout: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_antecedents = max_antecedents
        self.feature_dim = feature_dim
        self.num_genres = num_genres
        dtype = self.dtype_policy
        self.feature_dropout = layers.Dropout(dropout, dtype=dtype, name="feature_dropout")
        self.network = ScoringNetwork(hidden_units, dropout, dtype=dtype, name="network")

    def build(self, vectors_shape):
        sizes = {"speaker": 2, "distance": len(_DISTANCES) + 1, "genre": self.num_genres}
        self.speaker_embedding, self.distance_embedding, self.genre_embedding = (
            self.add_weight(
                name=f"{name}_embedding",
                shape=(size, self.feature_dim),
                initializer="glorot_uniform",
            )
            if size
            else None
            for name, size in sizes.items()
        )
        features = (self.feature_dim * (3 if self.num_genres else 2),)
        self.network.build([vectors_shape, vectors_shape, vectors_shape, features])

    def call(self, vectors, speakers, genre, training=False):
        own = self.network.product(0, vectors)
        others = self.network.product(1, vectors)

        def scores(spans):
            antecedents = antecedents_of(spans, self._num_antecedents(1 + tf.reduce_max(spans)))
            antecedents = tf.maximum(antecedents, 0)
            pairs = tf.gather(vectors, spans)[:, None] * tf.gather(vectors, antecedents)
            features = self._features(spans, antecedents, speakers, genre)
            features = self.feature_dropout(features, training=training)
            products = tf.gather(own, spans)[:, None] + tf.gather(others, antecedents)
            products += self.network.product(2, pairs) + self.network.product(3, features)
            return tf.cast(self.network(products, training=training), tf.float32)

        return self._in_blocks(scores, tf.shape(vectors)[0])

    def _num_antecedents(self, num_spans: tf.Tensor) -> tf.Tensor:
        """The number of antecedents of the last of the first `num_spans` spans, int32 ()."""
        return tf.clip_by_value(num_spans - 1, 0, self.max_antecedents)

    def _in_blocks(self, scores, num_spans):
        """The scores of all spans, float (span, antecedent), from those of a few at a time."""

        def padded(spans):
            of_block = scores(spans)
            return tf.pad(of_block, [[0, 0], [0, self.max_antecedents - tf.shape(of_block)[1]]])

        spans = tf.range(-(-num_spans // _BLOCK) * _BLOCK)
        blocks = tf.map_fn(
            padded,
            tf.reshape(tf.minimum(spans, num_spans - 1), (-1, _BLOCK)),
            fn_output_signature=tf.TensorSpec((_BLOCK, self.max_antecedents), tf.float32),
            parallel_iterations=1,  # more need more memory
        )
        of_spans = tf.reshape(blocks, (-1, self.max_antecedents))
        return of_spans[:num_spans, : self._num_antecedents(num_spans)]

    def _features(self, spans, antecedents, speakers, genre):
        """`phi` before dropout, float (span, antecedent, feature)."""
        own = tf.gather(speakers, spans)[:, None]
        is_same = tf.logical_and(own >= 0, own == tf.gather(speakers, antecedents))
        buckets = tf.searchsorted(_DISTANCES, 1 + tf.range(tf.shape(antecedents)[1]), side="right")
        parts = [
            _rows(self.speaker_embedding, tf.cast(is_same, tf.int32)),
            _rows(self.distance_embedding, buckets)[None],
        ]
        if self.genre_embedding is not None:
            parts.append(_rows(self.genre_embedding, genre)[None])
        shape = (*tf.unstack(tf.shape(antecedents)), self.feature_dim)
        return tf.concat([tf.broadcast_to(part, shape) for part in parts], axis=-1)


def _rows(table: Any, indices: Any) -> tf.Tensor:
    # With a sparse gradient, optimizers would square those of a repeated row before adding them.
    table = ops.convert_to_tensor(table)
    return tf.matmul(tf.one_hot(indices, table.shape[0], dtype=table.dtype), table)


def link_scores(scores: tf.Tensor, mention_scores: tf.Tensor, antecedents: tf.Tensor) -> tf.Tensor:
    """The scores of links: `s(n, a) = s_m(n) + s_m(a) + s_a(n, a)`, and `s(n, ε) = 0` for no link.

    float (span, 1 + antecedent), from `scores` `s_a` and `mention_scores` `s_m`: ε first; a large
    negative number where there is no antecedent.
    """
    scores += mention_scores[:, None] + tf.gather(mention_scores, tf.maximum(antecedents, 0))
    return tf.pad(tf.where(antecedents >= 0, scores, MASKED_SCORE), [[0, 0], [1, 0]])


def antecedent_loss(scores: tf.Tensor, antecedents: tf.Tensor, entities: tf.Tensor) -> tf.Tensor:
    """The negative log-likelihood of choosing any gold antecedent, summed over the spans.

    `sum_n log sum_{a ∈ Y(n) ∪ ε} exp(s(n, a)) - log sum_{a ∈ gold(n)} exp(s(n, a))`

    `gold(n)` are the antecedents with the entity of n, or ε if there are none. `scores` are the
    `link_scores`; `entities`, int32 (span,), are the gold entities, negative for none.

    Source: Lee et al. 2017, section 6.
    """
    own, others = entities[:, None], tf.gather(entities, tf.maximum(antecedents, 0))
    is_gold = (own >= 0) & (own == others) & (antecedents >= 0)
    is_gold = tf.concat([~tf.reduce_any(is_gold, axis=1, keepdims=True), is_gold], axis=1)
    gold = tf.where(is_gold, scores, MASKED_SCORE)
    return tf.reduce_sum(tf.reduce_logsumexp(scores, 1) - tf.reduce_logsumexp(gold, 1))


def entities_of(scores: tf.Tensor, is_mention: tf.Tensor) -> tf.Tensor:
    """The entity of each span: the spans that are linked by their best antecedents.

    int32 (span,), from the `link_scores`: entities from 0, in order of their first span, and -1 for
    spans without entity. Spans with `is_mention` are an entity even if nothing is linked to them.

    Source: Lee et al. 2017, section 3.
    """
    spans = tf.range(tf.shape(scores)[0])
    # Antecedent k in `antecedents_of` is the k-th span before; with ε, a span refers to itself.
    refers_to = spans - tf.argmax(scores, axis=1, output_type=tf.int32)
    first = _roots(refers_to)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(first), first, tf.size(first))
    is_first = (first == spans) & ((sizes > 1) | is_mention)
    entities = tf.where(is_first, tf.cumsum(tf.cast(is_first, tf.int32)) - 1, -1)
    return tf.gather(entities, first)


def _roots(refers_to: tf.Tensor) -> tf.Tensor:
    """The end of each chain of references, which is the first span of an entity."""

    def leads_further(spans):
        return tf.reduce_any(tf.gather(spans, spans) != spans)

    return tf.while_loop(leads_further, lambda spans: [tf.gather(spans, spans)], [refers_to])[0]
