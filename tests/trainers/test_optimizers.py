import functools
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.trainers.optimizers import Adagrad, AdamW, learning_rate_schedule, sum_duplicates

SLICES = tf.IndexedSlices(
    values=tf.constant([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [0.5, 0.5, 0.5]]),
    indices=tf.constant([4, 1, 4]),
    dense_shape=tf.constant([5, 3]),
)


def dense(slices):
    array = np.zeros((5, 3))
    np.add.at(array, np.array(slices.indices), slices.values.numpy())
    return array


def adagrad(value, gradients):
    """Duchi et al. 2011, in the form of the original; rate 0.3, initial accumulator 1."""
    accumulator = 1.0
    for gradient in gradients:
        accumulator = accumulator + gradient**2
        value = value - 0.3 * gradient / np.sqrt(accumulator)
    return value


def lazy_adamw(value, gradients, decay=0.2):
    """Kingma and Ba 2015, Loshchilov and Hutter 2019; rows without a gradient are unchanged."""
    mean, square = np.zeros_like(value), np.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        new_mean = 0.9 * mean + (1 - 0.9) * gradient
        new_square = 0.999 * square + (1 - 0.999) * gradient**2
        unbiased = new_mean / (1 - 0.9**step)
        spread = np.sqrt(new_square / (1 - 0.999**step))
        new_value = value - 0.1 * ((value.ndim > 1) * decay * value + unbiased / (spread + 1e-8))
        used = (gradient != 0).any(axis=-1, keepdims=True)
        mean, square, value = (
            np.where(used, new, old)
            for new, old in ((new_mean, mean), (new_square, square), (new_value, value))
        )
    return value


@pytest.mark.parametrize(
    ("optimizer", "formula"),
    [
        (Adagrad(0.3), adagrad),
        (AdamW(0.1), functools.partial(lazy_adamw, decay=0.0)),
        (AdamW(0.1, weight_decay=0.2), lazy_adamw),
    ],
)
def test_dense_and_sparse_gradients_follow_the_formula(optimizer, formula):
    start = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    table, matrix, vector = map(keras.Variable, (start, start[:2], start[0]))
    optimizer.build([table, matrix, vector])
    steps = []
    for scale, indices in ((1.0, [4, 1, 4]), (-0.2, [1, 2, 1]), (0.5, [4, 4, 4])):
        sparse = tf.IndexedSlices(SLICES.values * scale, indices, SLICES.dense_shape)
        gradients = [scale * start[:2] - 1.5, scale * start[0] - 1.5]
        summed = [sum_duplicates(sparse), *map(tf.constant, gradients)]
        optimizer.apply(summed, [table, matrix, vector])
        steps.append([dense(sparse), *gradients])

    starts = (start, start[:2], start[0])
    for variable, first, *own in zip((table, matrix, vector), starts, *steps, strict=True):
        expected = formula(first.astype(np.float64), own)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5)
    np.testing.assert_array_equal(table.numpy()[[0, 3]], start[[0, 3]])


@pytest.mark.parametrize("make", [Adagrad, lambda rate: AdamW(rate, weight_decay=0.1)])
def test_a_sparse_step_creates_no_tensor_of_the_size_of_the_table(make):
    table, optimizer = keras.Variable(np.ones((500, 3), np.float32)), make(0.1)
    optimizer.build([table])

    @tf.function(autograph=False)
    def step(values, indices):
        optimizer.apply([tf.IndexedSlices(values, indices, (500, 3))], [table])

    operations = step.get_concrete_function(SLICES.values, SLICES.indices).graph.get_operations()
    outputs = [output.shape for operation in operations for output in operation.outputs]
    sizes = {shape[0] for shape in outputs if shape.rank == 2}
    assert sizes
    assert 500 not in sizes


RATE, TOTAL = 0.3, 20
STEPS = range(30)  # the optimizer counts from 0


def constant(step, warmup):
    """During the warm-up, the rate rises from RATE / warmup."""
    return RATE * (min(1, (1 + (warmup - 1) * step / warmup) / warmup) if warmup else 1)


def cosine(step, warmup):
    progress = min(max(step - warmup, 0) / (TOTAL - warmup), 1)
    return constant(step, warmup) * (0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


@pytest.mark.parametrize(
    ("formula", "warmup"),
    [*itertools.product((constant, cosine), (1, 7, 200)), (constant, 0), (cosine, 0)],
)
def test_a_schedule_follows_its_formula(formula, warmup):
    """The warm-up takes at most half of the steps."""
    schedule = learning_rate_schedule(formula.__name__, RATE, warmup, TOTAL)
    expected = [formula(step, min(warmup, TOTAL // 2)) for step in STEPS]
    assert [float(schedule(step)) for step in STEPS] == pytest.approx(expected, rel=1e-5)
    alone = learning_rate_schedule(formula.__name__, RATE, warmup, 1)
    assert float(alone(0)) == pytest.approx(RATE)
