"""Scores of candidates ─► the kept spans: the best ones, of which none cross."""

import tensorflow as tf

# An undecided candidate has its rank, from 1 for the best; a decided one has one of these values.
_KEPT, _DROPPED = 0, tf.int32.max


def kept_spans(scores: tf.Tensor, is_candidate: tf.Tensor, num_spans: tf.Tensor) -> tf.Tensor:
    """Keeps the best spans, in order of decreasing score, without those that cross a kept one.

    Two spans cross if they share a token, and each has a token that the other has not. Of equal
    scores, the earlier and then the shorter span is the better one.

    Args:
        scores: float (token, width). The score of the span that begins at a token and has
            `width + 1` tokens.
        is_candidate: bool (token, width).
        num_spans: int32 (). The maximum number of kept spans.

    Returns:
        int32 (span,): `token * max_width + width` of each kept span, in increasing order: sorted by
        (first, last) token.

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

    def decide(ranks):
        crossing = _best_crossing(ranks)
        undecided = _is_undecided(ranks)
        dropped = tf.logical_and(undecided, crossing == _KEPT)
        kept = tf.logical_and(undecided, ranks < crossing)
        return [tf.where(dropped, _DROPPED, tf.where(kept, _KEPT, ranks))]

    ranks = tf.transpose(ranks)  # (width, token)
    ranks = tf.while_loop(lambda ranks: tf.reduce_any(_is_undecided(ranks)), decide, [ranks])[0]
    return tf.transpose(ranks == _KEPT)


def _is_undecided(ranks: tf.Tensor) -> tf.Tensor:
    return tf.logical_and(ranks > _KEPT, ranks < _DROPPED)


def _best_crossing(ranks: tf.Tensor) -> tf.Tensor:
    """The lowest rank of all spans that cross each span; ranks are int32 (width, token).

    Span (i, w) has the tokens i … i + w and the rank r(i, w). The lowest rank of the spans that
    begin after i, within (i, w), and end after i + w:
        `behind(i, w) = min(min_{v >= w} r(i + 1, v), behind(i + 1, w - 1))`
    that begin before i and end before i + w, within (i, w):
        `before(i, w) = min(before(i, w - 1), ending(i, w - 1))`
    that begin before i and end at i + w:
        `ending(i, w) = min(r(i - 1, w + 1), ending(i - 1, w + 1))`
    """
    ranks = tf.unstack(ranks)  # of each width, (token,)
    none = tf.fill(tf.shape(ranks[0]), _DROPPED)
    longer, ending = none, none
    at_least_as_long, endings = [], []
    for rank in reversed(ranks):
        longer = tf.minimum(longer, rank)
        at_least_as_long.insert(0, longer)
        endings.insert(0, ending)
        ending = _of_previous(tf.minimum(rank, ending))
    behind, before = none, none
    crossing = [none]
    for width in range(1, len(ranks)):
        behind = _of_next(tf.minimum(at_least_as_long[width], behind))
        before = tf.minimum(before, endings[width - 1])
        crossing.append(tf.minimum(behind, before))
    return tf.stack(crossing)


def _of_next(ranks: tf.Tensor) -> tf.Tensor:
    """The value of the next token at each token."""
    return tf.pad(ranks, [[0, 1]], constant_values=_DROPPED)[1:]


def _of_previous(ranks: tf.Tensor) -> tf.Tensor:
    """The value of the previous token at each token."""
    return tf.pad(ranks, [[1, 0]], constant_values=_DROPPED)[:-1]
