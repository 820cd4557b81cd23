import pytest
import tensorflow as tf

from elmo_tf.layers.recurrence_training_tf import custom_gradient


@custom_gradient
def scaled(x, y):
    """x · y², with three times the gradient."""
    product = x * y * y

    def gradient(upstream):
        return 3 * upstream * y * y, 6 * upstream * product / y

    return product, gradient


X, Y = tf.constant([2.0, -1.0]), tf.constant([5.0, 4.0])
TO_X, TO_Y = 3 * Y * Y, 6 * X * Y


def outer_tape(function, x=X, y=Y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        outputs = function(x, y)
    return tape.gradient(outputs, [x, y])


@tf.function
def inner_tape(function):
    return outer_tape(function)


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
    to_x, to_y = gradients()
    tf.debugging.assert_near(to_x, TO_X)
    tf.debugging.assert_near(to_y, TO_Y)
