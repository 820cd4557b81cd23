import keras
import numpy as np
import pytest

from elmo_tf.tasks import BiLSTM

LENGTHS = (3, 5, 0, 1)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
VECTORS = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)


def as_keras_weights(lstm):
    """Weights for `keras.layers.LSTM`: gates in its order, the forget bias of 1 in the bias."""
    kernel, recurrent_kernel, bias = (weight.numpy() for weight in lstm.weights)
    bias = bias + np.repeat([0.0, 0.0, 1.0, 0.0], lstm.cell.units)

    def reordered(array):  # i, j, f, o → i, f, j, o
        i, j, f, o = np.split(array, 4, axis=-1)
        return np.concatenate([i, f, j, o], axis=-1)

    return [reordered(array) for array in (kernel, recurrent_kernel, bias)]


@pytest.mark.parametrize("training", [False, True])
def test_outputs_equal_those_of_keras_bidirectional_lstm(training):
    layer = BiLSTM(4)
    layer.build((None, None, 3))
    theirs = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
    theirs.build((None, None, 3))
    theirs.set_weights(as_keras_weights(layer.forward) + as_keras_weights(layer.backward))

    vectors = layer(VECTORS, mask=MASK, training=training)

    np.testing.assert_allclose(vectors, theirs(VECTORS, mask=MASK), atol=1e-6)
    assert not vectors.numpy()[~MASK].any()


def test_several_bilstms_in_a_model_are_saved_with_separate_weights(keras_round_trip):
    inputs = keras.Input((None, 3))
    hidden = inputs
    for _ in range(6):
        hidden = BiLSTM(2)(hidden)
    model = keras.Model(inputs, hidden)

    loaded = keras_round_trip(model)

    assert len({id(weight) for weight in loaded.weights}) == 36
    np.testing.assert_array_equal(loaded(VECTORS), model(VECTORS))
