import keras
import numpy as np

from elmo_tf.trainers.averaging import WeightAverage


def test_the_average_follows_the_weights_and_is_applied_for_a_while():
    weights = [keras.Variable([1.0, 2.0]), keras.Variable(3.0)]
    average = WeightAverage(weights, 0.25)
    expected = [np.array([1.0, 2.0]), 3.0]

    for step, decay in enumerate((0.1, 2 / 11, 0.25)):
        weights[0].assign([4.0 + step, -1.0])
        weights[1].assign(10.0 * step)
        average.update(step)
        expected = [
            decay * old + (1 - decay) * weight.numpy()
            for old, weight in zip(expected, weights, strict=True)
        ]

    for found, value in zip(average.variables, expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)
    with average.applied():
        for weight, value in zip(weights, expected, strict=True):
            np.testing.assert_allclose(weight, value, rtol=1e-6)
    np.testing.assert_array_equal(weights[0], [6.0, -1.0])
    np.testing.assert_array_equal(weights[1], 20.0)
    np.testing.assert_allclose(average.variables[1], expected[1], rtol=1e-6)


def test_without_decay_the_weights_are_not_averaged():
    weight = keras.Variable(3.0)
    average = WeightAverage([weight], 0.0)
    weight.assign(4.0)
    average.update(0)
    with average.applied():
        assert float(weight) == 4
    assert not average.variables
