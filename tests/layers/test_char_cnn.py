import numpy as np
import pytest
import tensorflow as tf
from masks import mask_of

from elmo_tf.layers import CharCNN
from elmo_tf.layers import char_cnn as module
from nested_arrays import assert_close

FILTERS = ((1, 2), (2, 4), (3, 7))
EMBEDDING_DIM = 5


def layer_of(activation="relu", filters=FILTERS):
    """A layer with weights large enough for every filter to matter."""
    layer = CharCNN(filters, EMBEDDING_DIM, activation, name="cnn")
    layer.build((None, 11))
    rng = np.random.default_rng(0)
    layer.set_weights([rng.normal(0, 0.5, weight.shape) for weight in layer.weights])
    return layer


# The number of characters per row, and the lengths of tokens; too long ones fill the row.
LENGTHS = {
    "of every length": (50, range(53)),
    "more than a part": (50, [3, 1, 50, 7, 4, 49, 12] * 30),
    "wide rows": (100, range(103)),
    "narrow rows": (5, [1, 2, 5, 5, 3]),
    "one": (50, [6]),
    "of zeros": (9, [0, 0, 4]),
    "no tokens": (9, []),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_skipped_padding_changes_no_output_and_no_gradient(case, monkeypatch):
    num_chars, lengths = LENGTHS[case]
    layer, rng = layer_of("tanh", ((1, 2), (2, 4), (5, 7))), np.random.default_rng(1)
    ids = np.full((len(lengths), num_chars), 261, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = rng.integers(1, 261, min(length, num_chars))
    ids[:1] *= case != "of zeros"
    scale, results = rng.normal(size=(len(ids), 13)), []
    for many_filters in (0, 14):
        monkeypatch.setattr(module, "_MANY_FILTERS", many_filters)
        with tf.GradientTape() as tape:
            outputs = layer(ids)
            loss = tf.reduce_sum(outputs * scale)
        weights = [weight.value for weight in layer.trainable_weights]
        results.append([outputs, *tape.gradient(loss, weights)])

    assert_close(*results, atol=1e-4, rtol=1e-4)


def test_rows_of_zeros_are_masked():
    ids = np.array([[[0, 0, 0], [1, 0, 0]], [[261, 261, 261], [0, 0, 0]]])

    mask = mask_of(layer_of()(ids))

    np.testing.assert_array_equal(mask, [[False, True], [True, False]])


def test_short_rows_and_other_types_are_refused():
    with pytest.raises(ValueError, match=r"at least 3 characters per row.*shape \(2, 2\)"):
        CharCNN(FILTERS)(np.ones((2, 2), np.int32))
    with pytest.raises(ValueError, match=r"`char_ids` must be integers. Received: float32"):
        layer_of()(np.ones((2, 11), np.float32))


@pytest.mark.parametrize("max_width", [1, 3, 7])
def test_cut_characters_keeps_a_window_of_padding_or_all_characters(max_width):
    for used in range(1, 21):
        ids = np.full((2, 20), 261, np.int32)
        ids[1, used - 1] = 7

        cut = np.asarray(module.cut_characters(ids, max_width))

        np.testing.assert_array_equal(cut, ids[:, : cut.shape[1]])
        assert cut.shape[1] == 20 or used + max_width <= cut.shape[1] <= used + max_width + 3
