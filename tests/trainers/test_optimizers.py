import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.trainers.optimizers import (
    Adagrad,
    AdamW,
    clip_by_global_norm,
    optimizer_named,
    sum_duplicates,
)

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


def lazy_adam(value, gradients, rate, decay, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    """Kingma and Ba 2015, Loshchilov and Hutter 2019; rows without a gradient are unchanged."""
    mean, square = np.zeros_like(value), np.zeros_like(value)
    for step, gradient in enumerate(gradients, start=1):
        new_mean = beta_1 * mean + (1 - beta_1) * gradient
        new_square = beta_2 * square + (1 - beta_2) * gradient**2
        unbiased = new_mean / (1 - beta_1**step)
        spread = np.sqrt(new_square / (1 - beta_2**step))
        new_value = value - rate * (decay * value + unbiased / (spread + epsilon))
        used = (gradient != 0).any(axis=-1, keepdims=True)
        mean, square, value = (
            np.where(used, new, old)
            for new, old in ((new_mean, mean), (new_square, square), (new_value, value))
        )
    return value


def test_dense_and_sparse_gradients_follow_the_formula():
    start = np.arange(15, dtype=np.float32).reshape(5, 3)
    matrix, vector = keras.Variable(start), keras.Variable(start[0])
    optimizer = Adagrad(0.3, initial_accumulator_value=0.7)
    gradients = []
    for scale in (1.0, -0.2):
        sparse = tf.IndexedSlices(SLICES.values * scale, SLICES.indices, SLICES.dense_shape)
        optimizer.apply(
            [sum_duplicates(sparse), tf.constant([1.0, -2.0, 0.1]) * scale], [matrix, vector]
        )
        gradients.append((dense(sparse), np.array([1.0, -2.0, 0.1]) * scale))
    for variable, first, part in ((matrix, start, 0), (vector, start[0], 1)):
        expected = adagrad(first, [pair[part] for pair in gradients], 0.3, 0.7)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(matrix.numpy()[[0, 2, 3]], start[[0, 2, 3]])


def test_the_clipping_norm_covers_all_gradients_and_sums_duplicates():
    vector = np.array([3.0, 4.0], np.float32)
    norm = np.sqrt((dense(SLICES) ** 2).sum() + (vector**2).sum())
    (sparse, clipped), before = clip_by_global_norm([SLICES, tf.constant(vector)], 2.0)
    assert float(before) == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(dense(sparse), dense(SLICES) * 2 / norm, rtol=1e-6)
    np.testing.assert_allclose(clipped, vector * 2 / norm, rtol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.03])
def test_adamw_with_dense_gradients_equals_that_of_keras(decay):
    start = np.arange(1, 16, dtype=np.float32).reshape(5, 3) / 7
    pairs = [[keras.Variable(start), keras.Variable(start[0])] for _ in range(2)]
    settings = {"beta_1": 0.8, "beta_2": 0.97, "epsilon": 1e-5, "weight_decay": decay}
    ours, theirs = AdamW(0.02, **settings), keras.optimizers.AdamW(0.02, **settings)
    theirs.exclude_from_weight_decay(var_list=pairs[1][1:])
    rng = np.random.default_rng(0)
    for _ in range(4):
        gradients = [tf.constant(rng.normal(size=s).astype(np.float32)) for s in ((5, 3), (3,))]
        ours.apply(gradients, pairs[0])
        theirs.apply(gradients, pairs[1])

    for one, other in zip(*pairs, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_adamw_with_sparse_gradients_updates_only_their_rows(decay):
    start = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    table = keras.Variable(start)
    optimizer = AdamW(0.1, weight_decay=decay)
    gradients = []
    for indices in ([4, 1, 4], [1, 2, 1], [4, 4, 4]):
        sparse = tf.IndexedSlices(SLICES.values, tf.constant(indices), SLICES.dense_shape)
        optimizer.apply([sum_duplicates(sparse)], [table])
        gradients.append(dense(sparse))

    expected = lazy_adam(start.astype(np.float64), gradients, 0.1, decay)
    np.testing.assert_allclose(table.numpy(), expected, rtol=2e-5)
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


def test_a_schedule_gives_the_rate_of_each_step():
    class Halving(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 ** tf.cast(step + 1, tf.float32)

    scheduled, by_hand = keras.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
    optimizers = AdamW(Halving()), AdamW(0.5)
    for rate in (0.5, 0.25):
        optimizers[1].learning_rate = rate
        for optimizer, variable in zip(optimizers, (scheduled, by_hand), strict=True):
            optimizer.apply([tf.constant([0.3, -0.7])], [variable])

    np.testing.assert_array_equal(scheduled.numpy(), by_hand.numpy())


# Logical devices must be configured before TensorFlow starts: this runs in a separate process.
TWO_REPLICAS = """
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import keras

from elmo_tf.trainers.optimizers import optimizer_named
from elmo_tf.trainers.optimizers import learning_rate_schedule

DECAY = {"adagrad": 0.0, "adam": 0.0, "adamw": 0.1}


def train(strategy, name, rate):
    start = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    with strategy.scope():
        variables = [keras.Variable(start), keras.Variable(start), keras.Variable(start[0])]
        optimizer = optimizer_named(name, rate, DECAY[name])
        optimizer.build(variables)

    @tf.function(autograph=False)
    def step(scale):
        def replica_step():
            rows = tf.IndexedSlices(
                tf.ones((3, 3)) * scale, tf.constant([4, 1, 2]), tf.constant([5, 3])
            )
            dense = tf.cast(tf.reshape(tf.range(15), (5, 3)), tf.float32) * scale
            optimizer.apply([rows, dense, dense[1]], variables)

        strategy.run(replica_step)

    for scale in (1.0, -0.4, 0.3):
        step(tf.constant(scale))
    assert int(optimizer.iterations.numpy()) == 3
    results = []
    for variable in [*variables, *optimizer.variables]:
        copies = strategy.experimental_local_results(variable.value)
        assert len(copies) == strategy.num_replicas_in_sync, variable.path
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0])
        results.append(copies[0].numpy())
    return results


two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert two.num_replicas_in_sync == 2
for name in DECAY:
    for rate in (0.1, learning_rate_schedule("cosine", 0.1, 2, 5)):
        one = train(tf.distribute.get_strategy(), name, rate)
        for single, mirrored in zip(one, train(two, name, rate), strict=True):
            np.testing.assert_allclose(mirrored, single, rtol=1e-6)
"""


@pytest.mark.more
def test_two_replicas_make_the_same_steps_as_one():
    result = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_optimizers_are_created_by_name():
    adagrad = optimizer_named("adagrad", 0.3)
    adam = optimizer_named("adam", 0.3)
    adamw = optimizer_named("adamw", 0.3, 0.02)
    assert isinstance(adagrad, Adagrad)
    assert (type(adam), adam.name, adam.weight_decay) == (AdamW, "adam", 0)
    assert (type(adamw), adamw.name, adamw.weight_decay) == (AdamW, "adamw", 0.02)
    rates = [float(optimizer.learning_rate.numpy()) for optimizer in (adagrad, adam, adamw)]
    assert rates == pytest.approx([0.3] * 3)
