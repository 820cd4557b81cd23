import importlib

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.evaluation import Perplexity, perplexity
from reference import bilm as reference
from reference import softmax as reference_softmax

pytestmark = pytest.mark.usefixtures("eager_module")

# `elmo_tf.evaluation.perplexity` is also the function.
module = importlib.import_module("elmo_tf.evaluation.perplexity")

LINES = ["the cat sat", "", "on the mat 한국어 the cat", "  ", "cat", "sat on on sat"]
SENTENCES = [line.split() for line in LINES if line.split()]
NUM_TARGETS = 18
UNKNOWN = 2 / NUM_TARGETS  # "mat" and "한국어"


@pytest.fixture(scope="module")
def target_ids(language_model):
    """The ids of all targets, for each direction."""
    ids = [language_model.vocabulary.ids(sentence) for sentence in SENTENCES]
    return (
        [i for sentence in ids for i in [*sentence, 1]],
        [i for sentence in ids for i in [*sentence[::-1], 0]],
    )


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(language_model, target_ids, options, weights):
    """The values of the formulas: one batch row, with states carried between sentences."""
    vectors = [reference.token_vectors(sentence, options, weights) for sentence in SENTENCES]
    forward_inputs = np.concatenate([rows[:-1] for rows in vectors])
    backward_inputs = np.concatenate([rows[:0:-1] for rows in vectors])
    forward, _ = reference.layers_of_vectors(forward_inputs, options, weights)
    backward, _ = reference.layers_of_vectors(backward_inputs[::-1], options, weights)
    kernel, bias = language_model.softmax.kernel.numpy(), language_model.softmax.bias.numpy()
    outputs = forward[-1, :, :6], backward[-1, ::-1, 6:]
    forward, backward = (
        reference_softmax.full_loss(output, ids, kernel, bias).mean()
        for output, ids in zip(outputs, target_ids, strict=True)
    )
    return {
        "forward": np.exp(forward),
        "backward": np.exp(backward),
        "average": np.exp((forward + backward) / 2),
        "tokens": NUM_TARGETS,
        "unknown": UNKNOWN,
    }


# One window, and several; with the logits of all tokens in memory, of four, or of less than one.
@pytest.mark.parametrize(("window", "in_memory"), [(640, 640), (4, 640), (640, 4), (640, 0.1)])
@pytest.mark.parametrize("name", ["language_model", "forward_model"])
def test_perplexity_equals_the_formula_in_each_measurement(
    request, name, text, expected, monkeypatch, capsys, window, in_memory
):
    model = request.getfixturevalue(name)
    if name == "forward_model":
        expected = {**expected, "average": expected["forward"]}
        del expected["backward"]
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", window)
    monkeypatch.setattr(module, "_LOGITS_IN_MEMORY", int(in_memory * len(model.vocabulary)))
    measure = Perplexity(model, [text])

    assert measure() == pytest.approx(expected, rel=1e-5)

    assert f"evaluating: {NUM_TARGETS}/{NUM_TARGETS}, " in capsys.readouterr().err
    assert measure(shown=False) == pytest.approx(expected, rel=1e-5)  # from zero states again
    assert capsys.readouterr().err == ""


def check_losses_of_the_bias(result, model, target_ids):
    """The probability of a token does not depend on its context."""
    scores = model.softmax.bias.numpy().astype(np.float64)
    losses = np.log(np.exp(scores).sum()) - scores
    for direction, ids in zip(("forward", "backward"), target_ids, strict=True):
        assert result[direction] == pytest.approx(np.exp(losses[ids].mean()), rel=1e-5)


@pytest.mark.parametrize("tokens_per_row", [1, 5])
def test_all_tokens_are_counted_with_several_batch_rows(
    bilm, new_language_model, target_ids, text, monkeypatch, tokens_per_row
):
    # With a zero kernel, the probability of a token does not depend on its context.
    model = new_language_model(bilm)
    model.softmax.kernel.assign(tf.zeros_like(model.softmax.kernel))
    monkeypatch.setattr(module, "_TOKENS_PER_ROW", tokens_per_row)
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", 12)

    result = perplexity(model, [text])

    check_losses_of_the_bias(result, model, target_ids)
    assert result["tokens"] == NUM_TARGETS
    # All tokens but one have probability 0.
    model.softmax.bias.assign(np.eye(len(model.vocabulary))[0] * 10_000)
    assert perplexity(model, text)["forward"] == np.inf


def test_if_a_row_is_stuck_all_rows_are_read_again_from_the_states_of_the_best_one(
    bilm, new_language_model, target_ids, text, monkeypatch, caplog
):
    """From zero states, a row is stuck if it begins with "cat": one forward, two backward.

    In other states, the probabilities are those of the bias.
    """
    model = new_language_model(bilm)
    far = 100 * model.softmax.kernel[:1]

    def outputs_and_states(inputs, states):
        outputs, new_states = [], tf.nest.map_structure(tf.identity, states)
        for tokens, layers in zip(inputs, new_states, strict=True):
            state = layers[0][0]  # 0 before the first token, then 1, or 2 if it is stuck
            is_cat = tf.cast(tokens[:, 1:2] == "cat", tf.float32)
            layers[0][0] = state = tf.where(state == 0, 1 + is_cat, state)
            is_stuck = tf.cast(state[:, :1] > 1, tf.float32)
            outputs.append(tf.tile((is_stuck * far)[:, tf.newaxis], (1, tokens.shape[1], 1)))
        return outputs, new_states

    monkeypatch.setattr(model, "top_layer_outputs", outputs_and_states)
    monkeypatch.setattr(module, "_TOKENS_PER_ROW", 5)
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", 6)

    result = perplexity(model, [text])

    check_losses_of_the_bias(result, model, target_ids)
    assert caplog.text.count("the LSTM can get stuck") == 1


def test_an_evaluation_that_is_stopped_has_no_result(language_model, text):
    measure = Perplexity(language_model, [text])
    assert measure(is_stopped=lambda: True) is None
    assert measure()["tokens"] == NUM_TARGETS
