"""The convolutions of `CharCNN` on TensorFlow, without the padding behind short tokens.

All filters become one matrix product, and tokens of like length are computed together. The plain
form, for every backend, is in `char_cnn`; a test holds that both agree, and so do their gradients.
"""

from collections.abc import Sequence

import tensorflow as tf

# Columns of a row of characters, beyond the widest filter, that hold tokens of up to this length
# and one window of padding. Few are needed: a word's spelling and its two boundaries.
_LENGTHS = (5, 7, 9, 13, 19)
# Filters that are worth a part of their own. Arrays beyond 32 MiB are slow: they come from the
# system, page by page, every time.
_FILTERS_PER_PART = 512


def maxima(
    char_ids: tf.Tensor, table: tf.Tensor, kernels: Sequence[tf.Tensor]
) -> tf.Tensor:
    """The largest product of each filter with any window of a token's characters.

    Exact: behind a token all columns are alike, so that all windows there are, and one is enough.

    Args:
        char_ids: int (token, char).
        table: float (id, embedding).
        kernels: each float (width, embedding, count).

    Returns:
        float (token, sum of counts).
    """
    widest = max(kernel.shape[0] for kernel in kernels)
    kernel = tf.concat([_as_matrix(kernel, widest) for kernel in kernels], axis=-1)
    num_chars = tf.shape(char_ids)[1]
    behind = char_ids != char_ids[:, -1:]
    lengths = tf.reduce_max(tf.where(behind, tf.range(1, num_chars + 1), 0), axis=1)  # (token,)
    limits = [length + widest for length in _LENGTHS]
    # The last group: tokens too long for the others, and those that fill their row.
    fills = lengths + widest > num_chars
    group = tf.where(fills, len(limits), tf.searchsorted(limits, lengths + widest))
    groups = tf.dynamic_partition(char_ids, group, len(limits) + 1)
    places = tf.dynamic_partition(tf.range(tf.shape(char_ids)[0]), group, len(limits) + 1)
    num_parts = max(1, kernel.shape[1] // _FILTERS_PER_PART)
    found = []
    for limit, ids in zip(limits, groups, strict=False):
        ids = ids[:, :limit]
        size = -(-tf.shape(ids)[0] // num_parts)
        for part in range(num_parts):
            embedded = tf.gather(table, ids[part * size : (part + 1) * size])
            found.append(_maxima(embedded, kernel, widest))
    embedded = tf.gather(table, groups[-1])
    each = [_maxima(embedded, _as_matrix(one, one.shape[0]), one.shape[0]) for one in kernels]
    found.append(tf.concat(each, axis=-1))  # here each filter has windows of its own
    order = tf.math.invert_permutation(tf.concat(places, axis=0))
    return tf.gather(tf.concat(found, axis=0), order)


def _as_matrix(kernel: tf.Tensor, width: int) -> tf.Tensor:
    """A filter as (width · embedding, count), with zeros where it does not reach."""
    kernel = tf.pad(kernel, [[0, width - kernel.shape[0]], [0, 0], [0, 0]])
    return tf.reshape(kernel, (-1, kernel.shape[-1]))


def _maxima(embedded: tf.Tensor, kernel: tf.Tensor, width: int) -> tf.Tensor:
    """(token, char, embedding) → (token, filter), over all windows of that width."""
    num_windows = tf.shape(embedded)[1] - width + 1
    windows = [embedded[:, start : start + num_windows] for start in range(width)]
    windows = tf.reshape(tf.concat(windows, axis=-1), (-1, kernel.shape[0]))
    products = tf.matmul(windows, kernel)
    products = tf.reshape(products, (-1, num_windows, kernel.shape[1]))  # (token, window, filter)
    return tf.reduce_max(products, axis=1)
