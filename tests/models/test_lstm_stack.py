import keras
import numpy as np
import pytest

from elmo_tf.models.lstm_stack import LSTMStack
from reference import lstm as reference

DIM, PROJECTION, TOKENS = 7, 4, 5
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)


def stack_of(num_layers=3, skip=True):
    stack = LSTMStack(DIM, PROJECTION, num_layers, 0.6, 0.3, skip)
    stack.build((None, None, PROJECTION))
    rng = np.random.default_rng(0)
    stack.set_weights([rng.normal(0, 0.7, w.shape) for w in stack.weights])
    return stack


def inputs_of(seed=1):
    return np.random.default_rng(seed).normal(size=(3, TOKENS, PROJECTION)).astype(np.float32)


def expected(stack, row, skip, dropout_fn=lambda x: x):
    """The layers of one sentence, and their states."""
    x, outputs, states = inputs_of()[row].astype(np.float64), [], []
    for index, lstm in enumerate(stack.lstms):
        x = dropout_fn(x)
        kernel, recurrent_kernel, bias, projection = (w.numpy() for w in lstm.weights)
        y, h, c = reference.sequence(
            x,
            np.zeros(PROJECTION),
            np.zeros(DIM),
            MASK[row],
            matrix=np.concatenate([kernel, recurrent_kernel]),
            bias=bias,
            projection=projection,
            cell_clip=0.6,
            proj_clip=0.3,
        )
        x = (y + x) * MASK[row][:, None] if skip and index else y
        outputs.append(x)
        states.append([h, c])
    return outputs, states


@pytest.mark.parametrize("skip", [True, False])
def test_equals_the_formula_with_and_without_skip_connections(skip):
    stack = stack_of(skip=skip)

    outputs, states = stack(inputs_of(), mask=MASK)

    for row in range(3):
        layers, last = expected(stack, row, skip)
        for index in range(3):
            np.testing.assert_allclose(outputs[index][row], layers[index], atol=2e-6)
            np.testing.assert_allclose(states[index][0][row], last[index][0], atol=2e-6)
            np.testing.assert_allclose(states[index][1][row], last[index][1], atol=2e-6)


def test_the_skip_connection_adds_the_dropped_input():
    stack = stack_of()

    outputs, _ = stack(inputs_of(), mask=MASK, dropout_fn=lambda x: 0.5 * x)

    layers, _ = expected(stack, 0, True, lambda x: 0.5 * x)
    np.testing.assert_allclose(outputs[2][0], layers[2], atol=2e-6)


def test_two_windows_with_carried_state_equal_one_long_window():
    stack = stack_of()
    whole, last = stack(inputs_of())

    first, states = stack(inputs_of()[:, :2])
    second, end = stack(inputs_of()[:, 2:], initial_states=states)

    for index in range(3):
        both = np.concatenate([first[index], second[index]], axis=1)
        np.testing.assert_allclose(both, whole[index], atol=2e-6)
        np.testing.assert_allclose(end[index][1], last[index][1], atol=2e-6)


def test_a_configuration_makes_the_same_layer():
    config = stack_of().get_config()

    again = LSTMStack.from_config(config)
    again.build((None, None, PROJECTION))
    again.set_weights(stack_of().get_weights())

    assert again.get_config() == config
    np.testing.assert_array_equal(again(inputs_of())[0][2], stack_of()(inputs_of())[0][2])
    assert keras.saving.get_registered_name(LSTMStack) == "elmo_tf>LSTMStack"


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"`lstm.n_layers` must be an integer of at least 1"):
        LSTMStack(DIM, PROJECTION, 0, None, None, True)
