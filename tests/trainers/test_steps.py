import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLMConfig, Vocabulary
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.corpus import lines_read_once
from elmo_tf.text.windows import LMWindows
from elmo_tf.trainers.optimizers import Adagrad
from elmo_tf.trainers.steps import TrainStep
from nested_arrays import assert_close

pytestmark = pytest.mark.usefixtures("eager_functions")

NUM_ROWS, WINDOW = 3, 5


@pytest.fixture(scope="module")
def windows(text):
    windows = LMWindows(lines_read_once([text / "train_1.txt"]), NUM_ROWS, WINDOW)
    return [(one["inputs"], one["targets"]) for one in itertools.islice(windows, 4)]


@pytest.fixture
def new_step(text, settings):
    """Creates a `TrainStep`; without dropout and with all negatives, it is deterministic."""

    def create(
        dropout=0.0, clip_norm=10.0, num_sampled=1000, optimizer=None, reset_states=0.0, **kwargs
    ):
        keras.utils.set_random_seed(7)
        vocabulary = Vocabulary.load(text / "vocab.txt")
        config = BiLMConfig.from_options(settings["options"])
        model = LanguageModel.create(config, vocabulary, num_sampled, **kwargs)
        optimizer = optimizer or Adagrad(0.2)
        return TrainStep(model, optimizer, NUM_ROWS, dropout, clip_norm, 3, reset_states)

    return create


def values(step, window):
    return {name: float(value) for name, value in step(*window).items()}


def reset(step):
    for state in tf.nest.flatten(step.states):
        state.assign(tf.zeros_like(state))


def test_states_are_carried_from_window_to_window(new_step, windows):
    """Two windows with carried state give the loss of one window twice as long."""
    short, whole = new_step(optimizer=Adagrad(1e-9)), new_step(optimizer=Adagrad(1e-9))
    losses = [values(short, window) for window in windows[:2]]
    both = [tf.concat(parts, axis=-1) for parts in zip(*windows[:2], strict=True)]
    expected = values(whole, both)
    for name in ("forward", "backward"):
        assert np.mean([each[name] for each in losses]) == pytest.approx(expected[name], rel=1e-5)
    assert_close(short.states, whole.states, atol=1e-5)


def test_a_share_of_the_rows_is_reset_in_both_directions(new_step, windows, monkeypatch):
    step, read = new_step(reset_states=0.4), []
    outputs_of = step.model.top_layer_outputs

    def watched(inputs, states, *others, **kwargs):
        read.append([state.numpy() for state in tf.nest.flatten(states)])
        return outputs_of(inputs, states, *others, **kwargs)

    monkeypatch.setattr(step.model, "top_layer_outputs", watched)
    for _ in range(40):
        for state in tf.nest.flatten(step.states):
            state.assign(tf.ones_like(state))
        step(*windows[0])

    is_zero = [[(state == 0).all(axis=1) for state in states] for states in read]
    is_one = [[(state == 1).all(axis=1) for state in states] for states in read]
    np.testing.assert_array_equal(is_zero, np.logical_not(is_one))
    np.testing.assert_array_equal(is_zero, np.array(is_zero)[:, :1].repeat(len(is_zero[0]), 1))
    assert 0.25 < np.mean(is_zero) < 0.55


def test_dropout_and_negatives_differ_from_step_to_step(new_step, windows):
    for changes in ({"dropout": 0.5}, {"num_sampled": 6}):
        step = new_step(optimizer=Adagrad(1e-9), **changes)
        losses = set()
        for _ in range(3):
            reset(step)
            losses.add(values(step, windows[0])["loss"])
        assert len(losses) == 3


def test_gradients_are_scaled_by_the_window_length_and_clipped(new_step, windows):
    """With plain gradient descent of rate 1, the change of the weights is the gradient.

    So its norm is that of all gradients, in which tokens that occur repeatedly are summed.
    """
    changes, norms = [], []
    for clip_norm in (1e6, 0.5):
        step = new_step(clip_norm=clip_norm, optimizer=keras.optimizers.SGD(1.0))
        before = [weight.numpy() for weight in step.trainable]
        norms.append(values(step, windows[0])["norm"])
        pairs = zip(before, step.trainable, strict=True)
        changes.append(np.concatenate([(old - new.numpy()).ravel() for old, new in pairs]))
    assert np.linalg.norm(changes[0]) == pytest.approx(norms[0], rel=1e-4)
    assert np.linalg.norm(changes[1]) == pytest.approx(0.5, rel=1e-4)
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    # A small step lowers the loss by rate * (squared norm) / (window length).
    rate = 1e-3
    step = new_step(clip_norm=1e6, optimizer=keras.optimizers.SGD(rate))
    first = values(step, windows[0])["loss"]
    reset(step)
    expected = rate * norms[0] ** 2 / WINDOW
    assert first - values(step, windows[0])["loss"] == pytest.approx(expected, rel=0.05)


def test_exploding_gradients_change_no_weight_after_the_first_hundred_steps(new_step, windows):
    step = new_step()
    first = values(step, windows[0])["norm"]
    assert float(step.running_norm) == pytest.approx(first)
    step.running_norm.assign(first / 100)
    second = values(step, windows[1])  # norms may rise at the beginning
    assert not second["skipped"]
    expected = (first / 100 * second["norm"]) ** 0.5
    assert float(step.running_norm) == pytest.approx(expected)

    step.running_norm.assign(first / 100)
    step.step.assign(100)
    weights = [weight.numpy() for weight in step.model.weights]
    states = [state.numpy() for state in tf.nest.flatten(step.states)]
    assert values(step, windows[2])["skipped"]
    assert_close([weight.numpy() for weight in step.model.weights], weights)
    for state, before in zip(tf.nest.flatten(step.states), states, strict=True):
        assert not np.array_equal(state.numpy(), before)
    assert float(step.running_norm) < 1.06 * first / 100


def test_a_step_changes_only_the_softmax_rows_that_it_uses(new_step, windows):
    step = new_step(num_sampled=2)
    kernel = step.model.softmax.kernel
    before = kernel.numpy()
    values(step, windows[0])
    ids = {int(i) for part in step.model.targets(windows[0][1]) for i in part}
    changed = set(np.flatnonzero((kernel.numpy() != before).any(axis=1)))
    assert ids <= changed
    assert len(changed) <= len(ids) + 2 * 2  # two negatives per direction
    assert len(changed) < len(before)


def test_bfloat16_gives_nearly_the_losses_of_float32(new_step, windows):
    exact = new_step()
    rough = new_step(dtype="mixed_bfloat16")
    assert {weight.dtype for weight in rough.trainable} == {"float32"}
    for window in windows:
        expected = values(exact, window)["loss"]
        assert values(rough, window)["loss"] == pytest.approx(expected, rel=0.01)
