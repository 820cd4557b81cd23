import pytest
import tensorflow as tf

from elmo_tf.layers.recurrence_training_tf import custom_gradient
from nested_arrays import assert_close


@custom_gradient
def scaled(x, y):
    """x · y², with three times the gradient."""
    product = x * y * y

    def gradient(upstream):
        return 3 * upstream * y * y, 6 * upstream * product / y

    return product, gradient


X, Y = tf.constant([2.0, -1.0]), tf.constant([5.0, 4.0])
EXPECTED = 3 * Y * Y, 6 * X * Y


def outer_tape(function):
    with tf.GradientTape() as tape:
        tape.watch([X, Y])
        outputs = function(X, Y)
    return tape.gradient(outputs, [X, Y])


inner_tape = tf.function(outer_tape)


def old_style(function):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x, y = tf.constant(X.numpy()), tf.constant(Y.numpy())
        return session.run(tf.gradients(function(x, y), [x, y]))


@pytest.mark.parametrize(
    "gradients",
    [
        lambda: outer_tape(scaled),
        lambda: outer_tape(tf.function(scaled)),
        lambda: inner_tape(scaled),
        lambda: inner_tape(tf.function(scaled)),
        lambda: old_style(scaled),
    ],
    ids=["eager", "tape outside", "tape inside", "nested function", "tf.gradients"],
)
def test_the_custom_gradient_is_used_by_every_kind_of_differentiation(gradients):
    assert_close(gradients(), EXPECTED, rtol=1e-6)
