"""The convolutions of `CharCNN` on TensorFlow, without the padding of short tokens.

All filters are one matrix product, and tokens of similar length are computed together. Tests check
that outputs and gradients equal those of the backend-independent implementation in `char_cnn`.
"""

from collections.abc import Sequence

import tensorflow as tf

from elmo_tf.portability import is_portable

# Tokens that are computed together. A fixed number means few shapes, and arrays below 32 MiB, which
# the allocator reuses.
_TOKENS = 64
# Lengths are rounded up to these, for few shapes. Longer tokens, which few models accept,
# are not rounded.
_LENGTHS = (5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 27, 35, 50)


def maxima(char_ids: tf.Tensor, table: tf.Tensor, kernels: Sequence[tf.Tensor]) -> tf.Tensor:
    """Computes the maximum of each filter over all windows of a token's characters.

    The result is exact: all windows of padding have the same value, so one of them is enough.
    Char ids (token, char), table (id, embedding) and kernels, each (width, embedding, count), give
    float (token, sum of counts).
    """
    widths = [kernel.shape[0] for kernel in kernels]
    widest = max(widths)

    def with_padding(char_ids):
        embedded, pairs = tf.gather(table, char_ids), zip(kernels, widths, strict=True)
        return tf.concat([_maxima(embedded, _as_matrix(*pair), pair[1]) for pair in pairs], axis=-1)

    if is_portable():
        return with_padding(char_ids)
    num_chars = tf.shape(char_ids)[1]
    differs = char_ids != char_ids[:, -1:]
    lengths = tf.reduce_max(tf.where(differs, tf.range(1, num_chars + 1), 0), axis=1)  # (token,)
    is_long = lengths + widest > num_chars  # no window of padding
    lengths = tf.where(is_long, 0, lengths)

    short = _maxima_by_length(char_ids, lengths, table, kernels, widest)
    long = with_padding(tf.boolean_mask(char_ids, is_long))
    return tf.tensor_scatter_nd_update(short, tf.where(is_long), long)


def _maxima_by_length(
    char_ids: tf.Tensor,
    lengths: tf.Tensor,
    table: tf.Tensor,
    kernels: Sequence[tf.Tensor],
    widest: int,
) -> tf.Tensor:
    """`maxima` for tokens that are followed by at least one window of padding."""
    kernel = tf.concat([_as_matrix(kernel, widest) for kernel in kernels], axis=-1)
    num_tokens = tf.shape(char_ids)[0]
    size = tf.clip_by_value(num_tokens, 1, _TOKENS)
    num_parts = -(-num_tokens // size)
    order = tf.argsort(lengths)
    order = tf.pad(order, [[0, num_parts * size - num_tokens]])
    rounded = tf.gather(tf.constant(_LENGTHS), tf.searchsorted(_LENGTHS[:-1], lengths))
    rounded = tf.maximum(rounded, lengths)
    results = tf.TensorArray(table.dtype, num_parts, element_shape=(None, kernel.shape[1]))

    def add(part: tf.Tensor, results: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        tokens = order[part * size : (part + 1) * size]
        limit = tf.reduce_max(tf.gather(rounded, tokens)) + widest
        ids = tf.gather(char_ids, tokens)[:, :limit]
        return part + 1, results.write(part, _maxima(tf.gather(table, ids), kernel, widest))

    _, results = tf.while_loop(lambda part, _: part < num_parts, add, (tf.constant(0), results))
    results = tf.reshape(results.stack(), (-1, kernel.shape[1]))[:num_tokens]
    return tf.gather(results, tf.math.invert_permutation(order[:num_tokens]))


def _as_matrix(kernel: tf.Tensor, width: int) -> tf.Tensor:
    """A kernel as (width · embedding, count), padded with zeros to the width."""
    kernel = tf.pad(kernel, [[0, width - kernel.shape[0]], [0, 0], [0, 0]])
    return tf.reshape(kernel, (-1, kernel.shape[-1]))


def _maxima(embedded: tf.Tensor, kernel: tf.Tensor, width: int) -> tf.Tensor:
    """(token, char, embedding) → (token, filter): the maxima over all windows of `width`."""
    num_windows = tf.shape(embedded)[1] - width + 1
    windows = [embedded[:, start : start + num_windows] for start in range(width)]
    windows = tf.reshape(tf.concat(windows, axis=-1), (-1, kernel.shape[0]))
    products = tf.matmul(windows, kernel)
    products = tf.reshape(products, (-1, num_windows, kernel.shape[1]))  # (token, window, filter)
    return tf.reduce_max(products, axis=1)
