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


@pytest.mark.parametrize("tokens_per_window", [640, 4])  # one window, and several
def test_perplexity_equals_the_formula_in_each_measurement(
    language_model, text, expected, monkeypatch, capsys, tokens_per_window
):
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", tokens_per_window)
    measure = Perplexity(language_model, [text])

    assert measure() == pytest.approx(expected, rel=1e-5)

    assert f"evaluating: {NUM_TARGETS}/{NUM_TARGETS}, " in capsys.readouterr().err
    assert measure(shown=False) == pytest.approx(expected, rel=1e-5)  # from zero states again
    assert capsys.readouterr().err == ""


def test_a_forward_model_has_only_a_forward_perplexity(forward_model, language_model, text):
    result = perplexity(forward_model, [text])
    of_both = perplexity(language_model, [text])

    assert result.keys() == {"forward", "average", "tokens", "unknown"}
    assert result["average"] == result["forward"]
    assert result["forward"] == pytest.approx(of_both["forward"], rel=1e-6)
    assert result["tokens"] == NUM_TARGETS


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
    model.softmax.bias.assign(
        np.eye(len(model.vocabulary))[0] * 10_000
    )  # others have probability 0
    assert perplexity(model, [text])["forward"] == np.inf


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


def test_many_unknown_targets_give_a_warning(language_model, tmp_path, caplog):
    # 40 targets; the token <UNK> counts as unknown.
    (tmp_path / "text.txt").write_text("한국어 <UNK> mat" + " cat" * 36)

    measure = Perplexity(language_model, [tmp_path / "text.txt"])

    assert "7.5% of the targets are not in the vocabulary" in caplog.text
    assert measure(shown=False)["unknown"] == 3 / 40
    caplog.clear()
    (tmp_path / "text.txt").write_text("the cat sat on\n" * 10 + "a\n")  # 1 of 52
    Perplexity(language_model, [tmp_path / "text.txt"])
    assert caplog.text == ""


# Logits in memory: of less than one token, of three (the last chunk is short), and of all.
@pytest.mark.parametrize("num_tokens_in_memory", [0.1, 3, 100])
@pytest.mark.parametrize("num_tokens", [11, 0])
def test_losses_are_exact_for_any_chunk_size(
    language_model, monkeypatch, num_tokens_in_memory, num_tokens
):
    softmax, rng = language_model.softmax, np.random.default_rng(1)
    inputs = rng.normal(size=(num_tokens, softmax.kernel.shape[1])).astype(np.float32)
    targets = rng.integers(0, softmax.vocabulary_size, num_tokens, np.int32)
    size = int(num_tokens_in_memory * softmax.vocabulary_size)
    monkeypatch.setattr(module, "_LOGITS_IN_MEMORY", size)

    losses = module.token_losses(softmax, tf.constant(inputs), tf.constant(targets))

    expected = reference_softmax.full_loss(
        inputs, targets, softmax.kernel.numpy(), softmax.bias.numpy()
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses.dtype == tf.float32


def test_an_evaluation_that_is_stopped_has_no_result(language_model, text):
    measure = Perplexity(language_model, [text])
    assert measure(is_stopped=lambda: True) is None
    assert measure()["tokens"] == NUM_TARGETS
