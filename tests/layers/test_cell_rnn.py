import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.cell_rnn import CELLS, CellRNN
from nested_arrays import assert_close
from reference import cells as reference

UNITS, FEATURES, LENGTHS = 3, 2, (9, 4, 0)


def new_layer(cell, **kwargs):
    layer = CellRNN(UNITS, cell, **kwargs)
    layer.build((None, None, FEATURES))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return layer


def inputs(num_tokens):
    rng = np.random.default_rng(1)
    sequences = rng.normal(size=(len(LENGTHS), num_tokens, FEATURES)).astype(np.float32)
    mask = np.arange(num_tokens) < np.array(LENGTHS)[:, None]
    return tf.constant(sequences), tf.constant(mask)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("go_backwards", [False, True])
def test_outputs_equal_the_reference(cell, go_backwards):
    layer = new_layer(cell, go_backwards=go_backwards, learn_initial_state=True)
    sequences, mask = inputs(9)
    weights = {weight.name: weight.numpy() for weight in layer.weights}

    outputs = layer(sequences, mask=mask).numpy()

    for row, length in enumerate(LENGTHS):
        tokens = sequences.numpy()[row, :length]
        expected = reference.sequence(cell, tokens[::-1] if go_backwards else tokens, **weights)
        expected = expected[::-1] if go_backwards else expected
        np.testing.assert_allclose(outputs[row, :length], expected, atol=1e-6)
        assert not outputs[row, length:].any()


def test_masked_tokens_change_no_gradient():
    layer = new_layer("coupled_lstm", dropout=0.4, learn_initial_state=True, go_backwards=True)
    sequences, mask = inputs(9)

    def gradients(sequences):
        for variable in layer.non_trainable_variables:  # the seed of dropout
            variable.assign([1, 2])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(sequences, mask=mask, training=True) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_weights])

    changed = tf.where(mask[..., None], sequences, 7.0)
    expected = gradients(sequences)
    assert all(map(np.any, expected))
    assert_close(gradients(changed), expected, atol=1e-6)


def test_recurrent_dropout_is_the_same_at_all_tokens():
    keras.utils.set_random_seed(0)  # few units: another seed may drop all or none
    layer = new_layer("highway_lstm", dropout=0.5)
    sequences, _ = inputs(9)

    outputs = layer(sequences, training=True).numpy()

    dropped = (outputs == 0).all(axis=1)
    assert ((outputs == 0).any(axis=1) == dropped).all()
    assert 0 < dropped.sum() < dropped.size
