import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.cell_rnn import CELLS, CellRNN
from nested_arrays import assert_close
from reference import cells as reference

UNITS, FEATURES, LENGTHS = 3, 2, (9, 4, 0)
SEQUENCES = np.random.default_rng(1).normal(size=(len(LENGTHS), 9, FEATURES)).astype(np.float32)
MASK = np.arange(9) < np.array(LENGTHS)[:, None]


def new_layer(cell, **kwargs):
    layer = CellRNN(UNITS, cell, **kwargs)
    layer.build((None, None, FEATURES))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return layer


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("go_backwards", [False, True])
def test_outputs_equal_the_reference(cell, go_backwards):
    layer = new_layer(cell, go_backwards=go_backwards, learn_initial_state=True)
    weights = {weight.name: weight.numpy() for weight in layer.weights}

    outputs = layer(SEQUENCES, mask=MASK).numpy()

    for row, length in enumerate(LENGTHS):
        tokens = SEQUENCES[row, :length]
        expected = reference.sequence(cell, tokens[::-1] if go_backwards else tokens, **weights)
        expected = expected[::-1] if go_backwards else expected
        np.testing.assert_allclose(outputs[row, :length], expected, atol=1e-6)
        assert not outputs[row, length:].any()


def test_the_kernels_of_a_gru_begin_with_different_numbers():
    layer = CellRNN(UNITS, "gru")
    layer.build((None, None, UNITS))
    assert not np.isin(layer.kernel, layer.recurrent_kernel).any()


def test_masked_tokens_change_no_gradient():
    layer = new_layer("coupled_lstm", dropout=0.4, learn_initial_state=True, go_backwards=True)

    def gradients(sequences):
        for variable in layer.non_trainable_variables:  # the seed of dropout
            variable.assign([1, 2])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(sequences, mask=MASK, training=True) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_weights])

    changed = np.where(MASK[..., None], SEQUENCES, np.float32(7))
    expected = gradients(SEQUENCES)
    assert all(map(np.any, expected))
    assert_close(gradients(changed), expected, atol=1e-6)


def test_recurrent_dropout_is_the_same_at_all_tokens():
    keras.utils.set_random_seed(0)  # few units: another seed may drop all or none
    layer = new_layer("highway_lstm", dropout=0.5)

    outputs = layer(SEQUENCES, training=True).numpy()

    dropped = (outputs == 0).all(axis=1)
    assert ((outputs == 0).any(axis=1) == dropped).all()
    assert 0 < dropped.sum() < dropped.size
