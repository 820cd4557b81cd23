"""Scores of antecedents ─► entities."""

import tensorflow as tf


def entities_of(scores: tf.Tensor, is_mention: tf.Tensor) -> tf.Tensor:
    """The entity of each span: the spans that are linked by their best antecedents.

    Args:
        scores: float (span, 1 + antecedent), see `link_scores`.
        is_mention: bool (span,). The spans that are an entity even if nothing is linked to them.

    Returns:
        int32 (span,): entities from 0, in order of their first span; -1 for spans without entity.

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
