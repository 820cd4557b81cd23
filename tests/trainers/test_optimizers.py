import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.trainers.optimizers import Adagrad, clip_by_global_norm, sum_duplicates

SLICES = tf.IndexedSlices(
    values=tf.constant([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [0.5, 0.5, 0.5]]),
    indices=tf.constant([4, 1, 4]),
    dense_shape=tf.constant([5, 3]),
)


def dense(slices):
    array = np.zeros((5, 3))
    np.add.at(array, slices.indices.numpy(), slices.values.numpy())
    return array


def adagrad(value, gradients, rate, accumulator):
    """Duchi et al. 2011, in the form of the original."""
    for gradient in gradients:
        accumulator = accumulator + gradient**2
        value = value - rate * gradient / np.sqrt(accumulator)
    return value


def test_duplicate_rows_are_summed_once():
    summed = sum_duplicates(SLICES)
    assert sorted(summed.indices.numpy().tolist()) == [1, 4]
    np.testing.assert_allclose(dense(summed), dense(SLICES))


def test_dense_and_sparse_gradients_follow_the_formula():
    start = np.arange(15, dtype=np.float32).reshape(5, 3)
    matrix, vector = keras.Variable(start), keras.Variable(start[0])
    optimizer = Adagrad(0.3, initial_accumulator_value=0.7)
    gradients = []
    for scale in (1.0, -0.2):
        sparse = tf.IndexedSlices(SLICES.values * scale, SLICES.indices, SLICES.dense_shape)
        optimizer.apply([sparse, tf.constant([1.0, -2.0, 0.1]) * scale], [matrix, vector])
        gradients.append((dense(sparse), np.array([1.0, -2.0, 0.1]) * scale))
    for variable, first, part in ((matrix, start, 0), (vector, start[0], 1)):
        expected = adagrad(first, [pair[part] for pair in gradients], 0.3, 0.7)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)


def test_rows_without_a_gradient_stay_as_they_are():
    matrix = keras.Variable(np.ones((5, 3), np.float32))
    Adagrad(0.3).apply([SLICES], [matrix])
    np.testing.assert_array_equal(matrix.numpy()[[0, 2, 3]], 1)
    assert (matrix.numpy()[[1, 4]] != 1).all()


def test_clipping_counts_all_gradients_and_duplicates_together():
    vector = np.array([3.0, 4.0], np.float32)
    norm = np.sqrt((dense(SLICES) ** 2).sum() + (vector**2).sum())
    (sparse, clipped), before = clip_by_global_norm([SLICES, tf.constant(vector)], 2.0)
    assert float(before) == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(dense(sparse), dense(SLICES) * 2 / norm, rtol=1e-6)
    np.testing.assert_allclose(clipped, vector * 2 / norm, rtol=1e-6)


def test_small_gradients_are_not_scaled():
    (clipped,), _ = clip_by_global_norm([tf.constant([0.3, -0.4])], 2.0)
    np.testing.assert_allclose(clipped, [0.3, -0.4], rtol=1e-6)


def test_the_optimizer_survives_its_configuration():
    optimizer = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(Adagrad(0.05, initial_accumulator_value=0.4))
    )
    assert float(optimizer.learning_rate.numpy()) == pytest.approx(0.05)
    assert optimizer.initial_accumulator_value == 0.4


def test_an_accumulator_must_be_positive():
    with pytest.raises(ValueError, match="`initial_accumulator_value` must be above 0"):
        Adagrad(initial_accumulator_value=0)
