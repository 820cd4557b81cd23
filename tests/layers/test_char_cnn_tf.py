import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import char_cnn_tf

PAD = 261


def words(lengths, num_chars, seed=0):
    """Char ids of tokens of the given lengths, padded at the end; too long tokens fill the row."""
    rng = np.random.default_rng(seed)
    ids = np.full((len(lengths), num_chars), PAD, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = rng.integers(1, PAD, min(length, num_chars))
    return ids


def arrays(filters=((1, 2), (2, 4), (5, 7)), embedding_dim=3):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(262, embedding_dim)).astype("float32")
    table[0] = 0
    kernels = [
        rng.normal(size=(width, embedding_dim, count)).astype("float32") for width, count in filters
    ]
    return table, kernels


def plain(ids, table, kernels):
    """The convolutions by `tf.nn.conv1d`, over all windows."""
    embedded = tf.gather(table, ids)
    products = [tf.nn.conv1d(embedded, kernel, stride=1, padding="VALID") for kernel in kernels]
    return tf.concat([tf.reduce_max(one, axis=1) for one in products], axis=-1)


LENGTHS = {
    "of every length": (50, range(53)),
    "more than a part": (50, [3, 1, 50, 7, 4, 49, 12] * 30),
    "wide rows": (100, range(103)),
    "narrow rows": (5, [1, 2, 5, 5, 3]),
    "one": (50, [6]),
    "of zeros": (9, [0, 0, 4]),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_maxima_equal_those_of_conv1d(case):
    num_chars, lengths = LENGTHS[case]
    table, kernels = arrays()
    ids = words(list(lengths), num_chars)
    if case == "of zeros":
        ids[0] = 0

    found = char_cnn_tf.maxima(
        tf.constant(ids), tf.constant(table), list(map(tf.constant, kernels))
    )

    np.testing.assert_allclose(found, plain(ids, table, kernels), atol=1e-5)


def test_gradients_equal_those_of_conv1d():
    table, kernels = arrays()
    ids = words([3, 50, 1, 17, 46, 45, 0, 9] * 10, 50)
    scale = np.random.default_rng(2).normal(size=(80, 13)).astype("float32")
    variables = [tf.Variable(one) for one in (table, *kernels)]

    def gradients(function):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(ids, variables[0], variables[1:]) * scale)
        return [tf.convert_to_tensor(one) for one in tape.gradient(loss, variables)]

    for found, expected in zip(gradients(char_cnn_tf.maxima), gradients(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
