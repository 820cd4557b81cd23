import functools
import itertools

import numpy as np
import pytest

from elmo_tf.evaluation import perplexity, sentence_scores
from reference import bilm as reference
from reference import softmax as reference_softmax

pytestmark = pytest.mark.usefixtures("eager_module")

# With unknown words, tokens that look like sentence boundaries, and empty lines.
LINES = ["the cat sat", "", "on the mat 한국어 the cat", "  ", "cat", "sat <S> on on </S> sat"]
LONG = " ".join(["the", "cat", "sat", "on", "mat"] * 3)


@pytest.fixture(scope="module")
def scorer(language_model):
    return functools.partial(sentence_scores, language_model)


@pytest.fixture(scope="module")
def scores(scorer):
    return list(scorer(LINES))


def assert_same(scores, wanted):
    for score, other in zip(scores, wanted, strict=True):
        assert score.tokens == other.tokens
        assert score.token_log_probs.keys() == other.token_log_probs.keys()
        for direction, values in other.token_log_probs.items():
            np.testing.assert_allclose(score.token_log_probs[direction], values, atol=1e-5)


def test_scores_equal_the_formula(scores, language_model, options, weights):
    softmax = language_model.softmax
    kernel, bias = softmax.kernel.numpy(), softmax.bias.numpy()
    for line, score in zip(LINES, scores, strict=True):
        tokens = line.split()
        ids = language_model.vocabulary.ids(tokens)
        layers, _ = reference.layers(tokens, options, weights)
        # Forward, a token is predicted from those before it; backward, from those after it.
        forward = -reference_softmax.full_loss(layers[-1, :-1, :6], [*ids, 1], kernel, bias)
        backward = -reference_softmax.full_loss(layers[-1, 1:, 6:], [0, *ids], kernel, bias)

        assert score.tokens == tokens
        assert score.num_targets == len(tokens) + 1  # an empty line has one target: a boundary
        np.testing.assert_allclose(score.token_log_probs["forward"], forward, rtol=1e-5)
        np.testing.assert_allclose(score.token_log_probs["backward"], backward, rtol=1e-5)
        assert score.log_probs["forward"] == pytest.approx(forward.sum(), rel=1e-5)
        assert score.log_probs["backward"] == pytest.approx(backward.sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "directions"),
    [("language_model", ["forward", "backward"]), ("forward_model", ["forward"])],
)
def test_perplexity_of_one_sentence_matches_its_score(kind, directions, request, tmp_path):
    model = request.getfixturevalue(kind)
    (tmp_path / "text.txt").write_text(LONG)
    (score,) = sentence_scores(model, [LONG])

    measured = perplexity(model, [tmp_path / "text.txt"], shown=False)

    assert measured["tokens"] == score.num_targets
    assert list(score.log_probs) == directions
    for direction, log_prob in score.log_probs.items():
        mean = log_prob / score.num_targets
        assert measured[direction] == pytest.approx(np.exp(-mean), rel=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 40])
def test_scores_do_not_depend_on_the_other_sentences_of_a_batch(scorer, scores, batch_tokens):
    token_lists = [line.split() for line in LINES[::-1]]

    found = list(scorer([*LINES, LONG, *token_lists], batch_tokens))

    assert_same(found[: len(LINES)], scores)
    assert_same(found[: -len(LINES) - 1 : -1], scores)


def test_unknown_words_are_scored_as_unk_and_read_by_characters(scorer):
    values = [score.token_log_probs["forward"] for score in scorer(["zyx the", "<UNK> the"])]

    # The characters of a word change the scores of the words after it, not its own score.
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-6)
    assert abs(values[0][1] - values[1][1]) > 1e-4


def test_unknown_targets_are_marked_and_excluded_from_known_log_probs(scorer, forward_model):
    tokens = ["zyx", "the", "<UNK>", "cat"]
    (score,) = scorer([tokens])
    (forward,) = sentence_scores(forward_model, [tokens])

    assert score.is_unknown == [True, False, True, False]
    assert score.num_unknown == 2
    values = score.token_log_probs
    assert score.known_log_probs == pytest.approx(
        {
            "forward": values["forward"][[1, 3, 4]].sum(),  # the last one is </S>
            "backward": values["backward"][[0, 2, 4]].sum(),  # the first one is <S>
        }
    )
    assert forward.known_log_probs.keys() == {"forward"}


def test_an_endless_input_is_read_lazily(scorer, scores):
    taken = []
    lines = (taken.append(line) or line for line in itertools.cycle(LINES[:1]))

    found = itertools.islice(scorer(lines, batch_tokens=8), 20)

    assert_same(found, [scores[0]] * 20)
    assert len(taken) < 20 + 16 * 8


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ("the cat", TypeError, r"must be several sentences, not one string.*the cat"),
        (["the", [["the"]]], TypeError, r"a str or a list of tokens \(str\)\. Sentence 1 is"),
        (["the", 3], TypeError, r"a str or a list of tokens \(str\)\. Sentence 1 is 3"),
        ([["the", ""]], ValueError, r"or contain whitespace\. Sentence 0 contains ''"),
        ([["New York"]], ValueError, r"or contain whitespace\. Sentence 0 contains 'New York'"),
    ],
)
def test_wrong_sentences_are_errors(scorer, sentences, error, message):
    with pytest.raises(error, match=message):
        list(scorer(sentences))


def test_batch_tokens_below_1_is_an_error(scorer):
    with pytest.raises(ValueError, match=r"`batch_tokens` must be an integer of at least 1\. Rec"):
        scorer(["the"], batch_tokens=0)
