import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLMConfig, Vocabulary
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.precision import dtype_policy
from elmo_tf.text.windows import lm_windows
from elmo_tf.trainers.optimizers import Adagrad
from elmo_tf.trainers.steps import TrainStep

pytestmark = pytest.mark.usefixtures("eager_functions")

NUM_ROWS, WINDOW = 3, 5


@pytest.fixture(scope="module")
def windows(text):
    from elmo_tf.text.corpus import sentence_dataset

    return list(lm_windows(sentence_dataset([text / "train_1.txt"]), NUM_ROWS, WINDOW).take(4))


@pytest.fixture
def new_step(text, bilm_options):
    def create(dropout=0.1, clip_norm=10.0, num_sampled=6, optimizer=None, num_parts=1):
        keras.utils.set_random_seed(7)
        vocabulary = Vocabulary.load(text / "vocab.txt")
        config = BiLMConfig.from_options(bilm_options)
        model = LanguageModel.create(config, vocabulary, num_sampled)
        optimizer = optimizer or Adagrad(0.2)
        return TrainStep(model, optimizer, NUM_ROWS, dropout, clip_norm, 3, num_parts)

    return create


def test_states_are_carried_from_window_to_window(new_step, windows):
    """Two windows with carried state give the loss of one window twice as long."""
    short = new_step(0.0, num_sampled=1000, optimizer=Adagrad(1e-9))
    losses = [float(short(w["inputs"], w["targets"])["forward"]) for w in windows[:2]]
    whole = new_step(0.0, num_sampled=1000, optimizer=Adagrad(1e-9))
    inputs, targets = (
        tf.concat([window[name] for window in windows[:2]], axis=-1)
        for name in ("inputs", "targets")
    )
    assert np.mean(losses) == pytest.approx(float(whole(inputs, targets)["forward"]), rel=1e-5)


def test_the_seed_determines_losses_and_weights(new_step, windows):
    first, second = (new_step() for _ in range(2))
    for window in windows:
        one, two = (step(window["inputs"], window["targets"]) for step in (first, second))
        assert {name: float(v) for name, v in one.items()} == {
            name: float(v) for name, v in two.items()
        }
    for one, two in zip(first.model.weights, second.model.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_dropout_and_negatives_differ_from_step_to_step(new_step, windows):
    step = new_step(dropout=0.5, optimizer=Adagrad(1e-9))
    losses = set()
    for _ in range(3):
        for state in tf.nest.flatten(step.states):
            state.assign(tf.zeros_like(state))
        losses.add(float(step(windows[0]["inputs"], windows[0]["targets"])["loss"]))
    assert len(losses) == 3


def test_gradients_are_scaled_by_the_window_length_and_clipped(new_step, windows):
    """With plain gradient descent of rate 1, the change of the weights is the gradient."""
    window = windows[0]
    changes, norms = [], []
    for clip_norm in (1e6, 0.5):
        descent = keras.optimizers.SGD(1.0)
        step = new_step(0.0, clip_norm, 1000, descent)
        before = [weight.numpy() for weight in step.trainable]
        norms.append(float(step(window["inputs"], window["targets"])["norm"]))
        changes.append(
            np.concatenate(
                [
                    (old - new.numpy()).ravel()
                    for old, new in zip(before, step.trainable, strict=True)
                ]
            )
        )
    assert np.linalg.norm(changes[0]) == pytest.approx(norms[0], rel=1e-4)
    assert np.linalg.norm(changes[1]) == pytest.approx(0.5, rel=1e-4)
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    # A small step lowers the loss by rate * (squared norm) / (window length).
    rate = 1e-3
    step = new_step(0.0, 1e6, 1000, keras.optimizers.SGD(rate))
    losses = []
    for _ in range(2):
        for state in tf.nest.flatten(step.states):
            state.assign(tf.zeros_like(state))
        losses.append(float(step(window["inputs"], window["targets"])["loss"]))
    expected = rate * norms[0] ** 2 / WINDOW
    assert losses[0] - losses[1] == pytest.approx(expected, rel=0.05)


def test_exploding_gradients_change_no_weight(new_step, windows):
    step = new_step(0.0)
    usual = step(windows[0]["inputs"], windows[0]["targets"])
    assert not usual["skipped"]
    assert float(step.usual_norm) == float(usual["norm"])
    step.usual_norm.assign(usual["norm"] / 100)
    step.step.assign(100)
    weights = [weight.numpy() for weight in step.model.weights]
    states = [state.numpy() for state in tf.nest.flatten(step.states)]
    assert step(windows[1]["inputs"], windows[1]["targets"])["skipped"]
    for weight, before in zip(step.model.weights, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), before)
    for state, before in zip(tf.nest.flatten(step.states), states, strict=True):
        assert not np.array_equal(state.numpy(), before)
    assert float(step.usual_norm) < 1.06 * float(usual["norm"]) / 100


def test_norms_may_rise_at_the_beginning_of_a_run(new_step, windows):
    step = new_step(0.0)
    norms = []
    for window in windows[:2]:
        found = step(window["inputs"], window["targets"])
        norms.append(float(found["norm"]))
        assert not found["skipped"]
        step.usual_norm.assign(step.usual_norm / 100)
    assert float(step.usual_norm) * 100 == pytest.approx((norms[0] / 100 * norms[1]) ** 0.5)


def test_a_step_changes_only_the_softmax_rows_that_it_uses(new_step, windows):
    step = new_step(num_sampled=2)
    before = step.model.softmax.kernel.numpy()
    window = windows[0]
    step(window["inputs"], window["targets"])
    ids = {int(i) for part in step.model.targets(window["targets"]) for i in part}
    changed = set(np.flatnonzero((step.model.softmax.kernel.numpy() != before).any(axis=1)))
    assert ids <= changed
    assert len(changed) <= len(ids) + 2 * 2  # two negatives per direction
    assert len(changed) < len(before)


def test_gradient_accumulation_gives_the_same_step(new_step, windows):
    steps = [new_step(0.0, num_sampled=1000, num_parts=parts) for parts in (1, 3)]
    for window in windows:
        whole, parts = (step(window["inputs"], window["targets"]) for step in steps)
        for name, value in whole.items():
            assert float(parts[name]) == pytest.approx(float(value), rel=1e-5), name


def test_mixed_bfloat16_losses_are_close_to_float32(new_step, windows):
    exact = new_step(0.0, num_sampled=1000)
    with dtype_policy("mixed_bfloat16"):
        rough = new_step(0.0, num_sampled=1000)
    assert {weight.dtype for weight in rough.trainable} == {"float32"}
    for window in windows:
        losses = [float(s(window["inputs"], window["targets"])["loss"]) for s in (exact, rough)]
        assert losses[1] == pytest.approx(losses[0], rel=0.01)
