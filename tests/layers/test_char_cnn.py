import numpy as np
import pytest
import tensorflow as tf
from masks import mask_of

from elmo_tf.layers import CharCNN
from elmo_tf.layers import char_cnn as module
from nested_arrays import assert_close
from reference import token_encoder

FILTERS = ((1, 2), (2, 4), (3, 7))
EMBEDDING_DIM = 5


def layer_of(activation="relu", filters=FILTERS):
    """A layer with weights large enough for every filter to matter."""
    layer = CharCNN(filters, EMBEDDING_DIM, activation, name="cnn")
    layer.build((None, 11))
    rng = np.random.default_rng(0)
    layer.set_weights([rng.normal(0, 0.5, weight.shape) for weight in layer.weights])
    return layer


@pytest.mark.parametrize(
    ("activation", "filters", "atol"),
    [("relu", FILTERS, 1e-5), ("tanh", FILTERS, 1e-5), ("relu", ((1, 200), (3, 320)), 1e-4)],
    ids=["relu", "tanh", "many filters"],
)
def test_equals_the_formula(activation, filters, atol):
    layer = layer_of(activation, filters)
    for num_chars in (11, 50, 100):
        ids = np.random.default_rng(1).integers(0, 262, (6, num_chars)).astype(np.int32)
        ids[0] = 0
        for row, length in enumerate((1, 3, 8, num_chars - 3), start=1):
            ids[row, length:] = 261

        table, *rest = layer.get_weights()
        arguments = table, rest[0::2], rest[1::2], activation
        expected = [token_encoder.char_cnn(row, *arguments) for row in ids]
        np.testing.assert_allclose(layer(ids), expected, atol=atol)


# The number of characters per row, and the lengths of tokens; too long ones fill the row.
LENGTHS = {
    "of every length": (50, range(53)),
    "more than a part": (50, [3, 1, 50, 7, 4, 49, 12] * 30),
    "wide rows": (100, range(103)),
    "narrow rows": (5, [1, 2, 5, 5, 3]),
    "one": (50, [6]),
    "of zeros": (9, [0, 0, 4]),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_skipped_padding_changes_no_output_and_no_gradient(case, monkeypatch):
    num_chars, lengths = LENGTHS[case]
    layer, rng = layer_of("tanh", ((1, 2), (2, 4), (5, 7))), np.random.default_rng(1)
    ids = np.full((len(lengths), num_chars), 261, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = rng.integers(1, 261, min(length, num_chars))
    ids[0] *= case != "of zeros"
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


def test_initial_weights_are_distributed_as_in_the_original():
    relu, tanh = CharCNN(((3, 900),), 16), CharCNN(((3, 900),), 16, "tanh")
    for layer in (relu, tanh):
        layer.build((None, 8))

    table, kernel, bias = relu.get_weights()
    assert table.shape == (261, 16)
    assert 0.98 < np.abs(table).max() <= 1
    assert 0.049 < np.abs(kernel).max() <= 0.05
    assert not bias.any()
    assert np.std(tanh.get_weights()[1]) == pytest.approx(48**-0.5, rel=0.02)


def test_short_rows_and_other_types_are_refused():
    with pytest.raises(ValueError, match=r"at least 3 characters per row.*shape \(2, 2\)"):
        CharCNN(FILTERS)(np.ones((2, 2), np.int32))
    with pytest.raises(ValueError, match=r"`char_ids` must be integers. Received: float32"):
        layer_of()(np.ones((2, 11), np.float32))
