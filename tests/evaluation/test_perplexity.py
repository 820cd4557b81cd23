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


@pytest.fixture(scope="module")
def measure(language_model, text):
    return Perplexity(language_model, [text])


@pytest.fixture(scope="module")
def measured(measure):
    return measure()


def test_perplexity_of_a_short_text_equals_the_formula(measured, expected):
    assert measured == pytest.approx(expected, rel=1e-5)


def test_a_forward_model_has_only_a_forward_perplexity(forward_model, text, measured):
    result = perplexity(forward_model, [text])

    assert result.keys() == {"forward", "average", "tokens", "unknown"}
    assert result["average"] == result["forward"]
    assert result["forward"] == pytest.approx(measured["forward"], rel=1e-6)
    assert result["tokens"] == NUM_TARGETS


def test_the_lstm_state_is_carried_from_window_to_window(
    language_model, text, expected, monkeypatch
):
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", 4)

    assert perplexity(language_model, [text]) == pytest.approx(expected, rel=1e-5)


def test_each_measurement_resets_the_lstm_state(measure, measured):
    assert measure() == measured


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

    scores = model.softmax.bias.numpy().astype(np.float64)
    losses = np.log(np.exp(scores).sum()) - scores
    for direction, ids in zip(("forward", "backward"), target_ids, strict=True):
        assert result[direction] == pytest.approx(np.exp(losses[ids].mean()), rel=1e-5)
    assert result["tokens"] == NUM_TARGETS


def test_a_long_text_is_read_in_several_batch_rows(language_model, tmp_path, monkeypatch, caplog):
    rows = []
    lm_windows = module.lm_windows

    def watched(sentences, num_rows, window, **options):
        rows.append((num_rows, window))
        return lm_windows(sentences, num_rows, window, **options)

    monkeypatch.setattr(module, "lm_windows", watched)
    (tmp_path / "long.txt").write_text("the cat sat on\n" * 990 + "a\n" * 25)  # 25 of 5,000

    Perplexity(language_model, [tmp_path / "long.txt"])

    assert rows == [(2, 320)]
    assert caplog.text == ""  # few targets are unknown


def test_many_unknown_targets_give_a_warning(language_model, tmp_path, caplog):
    # 40 targets; the token <UNK> counts as unknown.
    (tmp_path / "text.txt").write_text("한국어 <UNK> mat" + " cat" * 36)

    measure = Perplexity(language_model, [tmp_path / "text.txt"])

    assert "7.5% of the targets are not in the vocabulary" in caplog.text
    assert measure(shown=False)["unknown"] == 3 / 40


def test_progress_is_shown_on_request(measure, capsys):
    measure(shown=True)
    assert f"evaluating: {NUM_TARGETS}/{NUM_TARGETS} (100%)" in capsys.readouterr().err

    measure(shown=False)
    assert capsys.readouterr().err == ""


def test_a_text_without_tokens_is_an_error(language_model, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")

    with pytest.raises(ValueError, match=r"There is no token in .*empty\.txt"):
        perplexity(language_model, [tmp_path / "empty.txt"])


def test_perplexity_is_infinite_on_overflow(bilm, new_language_model, text):
    model = new_language_model(bilm)
    bias = np.zeros(len(model.vocabulary))
    bias[0] = 10_000  # all other tokens have probability 0
    model.softmax.bias.assign(bias)

    assert perplexity(model, [text])["forward"] == np.inf
