import gzip
import importlib

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Vocabulary
from elmo_tf.evaluation import Perplexity, perplexity
from elmo_tf.layers import SampledSoftmax
from elmo_tf.models.language_model import LanguageModel
from reference import bilm as reference
from reference import softmax as reference_softmax

pytestmark = pytest.mark.usefixtures("eager_module")

# `elmo_tf.evaluation.perplexity` is also the function.
module = importlib.import_module("elmo_tf.evaluation.perplexity")

VOCABULARY = Vocabulary.build(["the the cat cat sat on"])
LINES = ["the cat sat", "", "on the mat 한국어 the cat", "  ", "cat", "sat on on sat"]
SENTENCES = [line.split() for line in LINES if line.split()]
NUM_TARGETS = sum(len(sentence) + 1 for sentence in SENTENCES)
UNKNOWN = 2 / NUM_TARGETS  # "mat" and "한국어"
# The ids of all targets, for each direction.
FORWARD = [i for sentence in SENTENCES for i in [*VOCABULARY.ids(sentence), 1]]
BACKWARD = [i for sentence in SENTENCES for i in [*VOCABULARY.ids(sentence)[::-1], 0]]


def language_model(bilm, seed=0):
    model = LanguageModel(bilm, SampledSoftmax(len(VOCABULARY), 3), VOCABULARY)
    rng = np.random.default_rng(seed)
    for weight in model.softmax.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


@pytest.fixture(scope="module")
def model(bilm):
    """Shared: no test may change it."""
    return language_model(bilm)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(model, options, weights):
    """By the formulas: one row, its state carried from sentence to sentence."""
    vectors = [reference.token_vectors(sentence, options, weights) for sentence in SENTENCES]
    forward_inputs = np.concatenate([rows[:-1] for rows in vectors])
    backward_inputs = np.concatenate([rows[:0:-1] for rows in vectors])
    forward, _ = reference.layers_of_vectors(forward_inputs, options, weights)
    backward, _ = reference.layers_of_vectors(backward_inputs[::-1], options, weights)
    kernel, bias = model.softmax.kernel.numpy(), model.softmax.bias.numpy()
    forward = reference_softmax.full_loss(forward[-1, :, :6], FORWARD, kernel, bias).mean()
    backward = reference_softmax.full_loss(backward[-1, ::-1, 6:], BACKWARD, kernel, bias).mean()
    return {
        "forward": np.exp(forward),
        "backward": np.exp(backward),
        "average": np.exp((forward + backward) / 2),
        "tokens": NUM_TARGETS,
        "unknown": UNKNOWN,
    }


@pytest.fixture(scope="module")
def forward_model(model, forward_bilm):
    """The forward half of `model`."""
    return LanguageModel(forward_bilm, model.softmax, VOCABULARY)


@pytest.fixture(scope="module")
def measure(model, text):
    return Perplexity(model, [text])


@pytest.fixture(scope="module")
def measured(measure):
    return measure()


def test_a_short_text_has_the_perplexity_of_the_formula(measured, expected):
    assert measured == pytest.approx(expected, rel=1e-5)


def test_forward_alone_has_one_perplexity(forward_model, text, measured):
    result = perplexity(forward_model, [text])

    assert result.keys() == {"forward", "average", "tokens", "unknown"}
    assert result["average"] == result["forward"]
    assert result["forward"] == pytest.approx(measured["forward"], rel=1e-6)
    assert result["tokens"] == NUM_TARGETS


def test_every_token_and_every_boundary_is_a_target(measured):
    assert measured["tokens"] == NUM_TARGETS == 18
    assert isinstance(measured["tokens"], int)


def test_the_state_goes_from_window_to_window(model, text, expected, monkeypatch):
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", 4)

    assert perplexity(model, [text]) == pytest.approx(expected, rel=1e-5)


def test_each_measurement_begins_with_a_fresh_state(measure, measured):
    assert measure() == measured


def test_a_text_in_several_files_and_packed_is_the_same_text(model, text, tmp_path, measured):
    lines = text.read_bytes().splitlines(keepends=True)
    (tmp_path / "1.txt").write_bytes(b"".join(lines[:2]))
    (tmp_path / "2.txt.gz").write_bytes(gzip.compress(b"".join(lines[2:])))

    files = [tmp_path / "1.txt", str(tmp_path / "2.txt.gz")]
    assert perplexity(model, files) == pytest.approx(measured, rel=1e-6)


@pytest.mark.parametrize("tokens_per_row", [1, 3, 5])
def test_several_rows_lose_no_token(bilm, text, monkeypatch, tokens_per_row):
    # Whatever was read before, such a softmax gives a token the same probability.
    model = language_model(bilm)
    model.softmax.kernel.assign(tf.zeros_like(model.softmax.kernel))
    monkeypatch.setattr(module, "_TOKENS_PER_ROW", tokens_per_row)
    monkeypatch.setattr(module, "_TOKENS_PER_WINDOW", 12)

    result = perplexity(model, [text])

    scores = model.softmax.bias.numpy().astype(np.float64)
    losses = np.log(np.exp(scores).sum()) - scores
    assert result["forward"] == pytest.approx(np.exp(losses[FORWARD].mean()), rel=1e-5)
    assert result["backward"] == pytest.approx(np.exp(losses[BACKWARD].mean()), rel=1e-5)
    assert result["tokens"] == NUM_TARGETS


def test_a_long_text_is_read_in_several_rows(model, text, tmp_path, monkeypatch):
    rows = []
    lm_windows = module.lm_windows

    def watched(sentences, num_rows, window, **options):
        rows.append((num_rows, window))
        return lm_windows(sentences, num_rows, window, **options)

    monkeypatch.setattr(module, "lm_windows", watched)
    (tmp_path / "long.txt").write_text("the cat sat on\n" * 1000)

    for path in (text, tmp_path / "long.txt"):
        Perplexity(model, [path])

    assert rows == [(1, 640), (2, 320)]


@pytest.mark.parametrize(("num_unknown", "warns"), [(2, False), (3, True)])
def test_many_unknown_targets_are_warned_of(model, tmp_path, caplog, num_unknown, warns):
    # 40 targets; a token that is spelt <UNK> is one of the unknown.
    words = ["한국어", "<UNK>", "mat"][:num_unknown]
    (tmp_path / "text.txt").write_text(" ".join([*words, *["cat"] * (39 - num_unknown)]))

    measure = Perplexity(model, [tmp_path / "text.txt"])

    assert ("of the targets are not in the vocabulary" in caplog.text) == warns
    if warns:
        assert "7.5% of the targets" in caplog.text
    assert measure(shown=False)["unknown"] == num_unknown / 40


def test_progress_is_shown_if_asked_for(measure, capsys):
    measure(shown=True)
    assert f"evaluating: {NUM_TARGETS}.0/{NUM_TARGETS}.0 (100%)" in capsys.readouterr().err

    measure(shown=False)
    assert capsys.readouterr().err == ""


def test_a_text_without_tokens_is_an_error(model, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")

    with pytest.raises(ValueError, match=r"There is no token in .*empty\.txt"):
        perplexity(model, [tmp_path / "empty.txt"])


def test_a_model_beyond_all_bounds_has_an_infinite_perplexity(bilm, text):
    model = language_model(bilm)
    bias = np.zeros(len(VOCABULARY))
    bias[0] = 10_000  # nothing else is thought possible
    model.softmax.bias.assign(bias)

    assert perplexity(model, [text])["forward"] == np.inf
