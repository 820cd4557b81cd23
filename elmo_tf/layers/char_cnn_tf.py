"""The convolutions of `CharCNN` on TensorFlow, without the padding behind short tokens.

All filters become one matrix product, and tokens of like length are computed together. The plain
form, for every backend, is in `char_cnn`; a test holds that both agree, and so do their gradients.
"""

from collections.abc import Sequence

import tensorflow as tf

# Tokens that are computed together. Parts of one size need few kernels, however many tokens there
# are; and arrays of more than 32 MiB are slow: they come from the system, page by page, every time.
_TOKENS = 64
# Lengths to which those of a part's tokens are rounded up, so that there are few shapes. A longer
# one, which few models have room for, stays as it is.
_LENGTHS = (5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 27, 35, 50)


def maxima(char_ids: tf.Tensor, table: tf.Tensor, kernels: Sequence[tf.Tensor]) -> tf.Tensor:
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
    num_chars = tf.shape(char_ids)[1]
    differs = char_ids != char_ids[:, -1:]
    lengths = tf.reduce_max(tf.where(differs, tf.range(1, num_chars + 1), 0), axis=1)  # (token,)
    fills = lengths + widest > num_chars  # leaves no window behind itself
    lengths = tf.where(fills, 0, lengths)

    short = _maxima_by_length(char_ids, lengths, table, kernels, widest)
    places = tf.where(fills)
    embedded = tf.gather(table, tf.boolean_mask(char_ids, fills))
    long = [_maxima(embedded, _as_matrix(one, one.shape[0]), one.shape[0]) for one in kernels]
    return tf.tensor_scatter_nd_update(short, places, tf.concat(long, axis=-1))


def _maxima_by_length(
    char_ids: tf.Tensor,
    lengths: tf.Tensor,
    table: tf.Tensor,
    kernels: Sequence[tf.Tensor],
    widest: int,
) -> tf.Tensor:
    """The same for tokens that leave at least one window of the widest filter behind them."""
    kernel = tf.concat([_as_matrix(one, widest) for one in kernels], axis=-1)
    num_tokens = tf.shape(char_ids)[0]
    size = tf.clip_by_value(num_tokens, 1, _TOKENS)
    num_parts = -(-num_tokens // size)
    order = tf.argsort(lengths)
    order = tf.pad(order, [[0, num_parts * size - num_tokens]])
    rounded = tf.gather(tf.constant(_LENGTHS), tf.searchsorted(_LENGTHS[:-1], lengths))
    rounded = tf.maximum(rounded, lengths)
    found = tf.TensorArray(table.dtype, num_parts, element_shape=(None, kernel.shape[1]))

    def add(part: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        tokens = order[part * size : (part + 1) * size]
        limit = tf.reduce_max(tf.gather(rounded, tokens)) + widest
        ids = tf.gather(char_ids, tokens)[:, :limit]
        return part + 1, found.write(part, _maxima(tf.gather(table, ids), kernel, widest))

    _, found = tf.while_loop(lambda part, _: part < num_parts, add, (tf.constant(0), found))
    found = tf.reshape(found.stack(), (-1, kernel.shape[1]))[:num_tokens]
    return tf.gather(found, tf.math.invert_permutation(order[:num_tokens]))


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
