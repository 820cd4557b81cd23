import functools
import importlib
import itertools

import numpy as np
import pytest

from elmo_tf.evaluation import sentence_scores
from elmo_tf.evaluation import substitutes as substitutes_of
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


@pytest.mark.parametrize("batch_tokens", [1, 40])
def test_scores_do_not_depend_on_the_other_sentences_of_a_batch(scorer, scores, batch_tokens):
    token_lists = [line.split() for line in LINES[::-1]]

    found = list(scorer([*LINES, LONG, *token_lists], batch_tokens))

    assert_same(found[: len(LINES)], scores)
    assert_same(found[: -len(LINES) - 1 : -1], scores)


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


def test_wrong_sentences_and_positions_are_errors(scorer, language_model):
    with pytest.raises(TypeError, match=r"must be several sentences, not one string.*the cat"):
        list(scorer("the cat"))
    with pytest.raises(ValueError, match=r"has 7 tokens: there is no position -1"):
        substitutes_of(language_model, [TOKENS], [[0, -1]])


def substitutes(model, sentence, positions, *arguments, **options):
    """The substitutes of one sentence."""
    (found,) = substitutes_of(model, [sentence], [positions], *arguments, **options)
    return found


SENTENCE = "the cat sat on 한국어 the mat"
TOKENS = SENTENCE.split()
WORDS = ["cat", "the", "on", "sat"]  # of the vocabulary


@pytest.mark.parametrize("position", [0, 3, 6])
def test_scores_of_substitutes_equal_those_of_sentences_with_them(language_model, position):
    sentences = [[*TOKENS[:position], word, *TOKENS[position + 1 :]] for word in WORDS]
    wanted = {
        word: {
            "forward": score.token_log_probs["forward"][position],
            "backward": score.token_log_probs["backward"][position + 1],
        }
        for word, score in zip(WORDS, sentence_scores(language_model, sentences), strict=True)
    }

    (found,) = substitutes(language_model, SENTENCE, [position])

    best = sorted(WORDS, key=lambda word: -sum(wanted[word].values()))
    assert [token for token, _, _ in found] == best
    assert substitutes(language_model, TOKENS, [position], top_n=3) == [found[:3]]
    for token, log_probs, total in found:
        assert log_probs == pytest.approx(wanted[token], abs=1e-5)
        assert total == pytest.approx(sum(wanted[token].values()), abs=1e-5)


def assert_same_substitutes(found, wanted):
    """Of each position."""
    for best, other in zip(found, wanted, strict=True):
        assert [one.token for one in best] == [one.token for one in other]
        for one, same in zip(best, other, strict=True):
            assert one.log_probs == pytest.approx(same.log_probs, abs=1e-5)
            assert one.total == pytest.approx(same.total, abs=1e-5)


def test_excluded_tokens_are_not_returned(language_model):
    (everything,) = substitutes(language_model, TOKENS, [1], exclude=())
    (few,) = substitutes(language_model, TOKENS, [1], exclude=["the", "on", "zyx"])
    (nothing,) = substitutes(language_model, TOKENS, [1], exclude=language_model.vocabulary.tokens)

    assert {token for token, _, _ in everything} == set(language_model.vocabulary.tokens)
    assert [s.token for s in few] == [s.token for s in everything if s.token not in ("the", "on")]
    assert nothing == []


def test_a_forward_model_uses_only_the_preceding_tokens(forward_model):
    (found,) = substitutes(forward_model, TOKENS, [3])

    wanted = sentence_scores(forward_model, [[*TOKENS[:3], s.token] for s in found])
    for (_, log_probs, total), score in zip(found, wanted, strict=True):
        forward = score.token_log_probs["forward"][3]
        assert log_probs == pytest.approx({"forward": forward}, abs=1e-5)
        assert total == log_probs["forward"]


# Of different lengths, with several positions, a repeated one, or none.
MANY = [(SENTENCE, [5, 0]), (["cat"], [0]), ("", []), ("on the mat", [2, 2]), (TOKENS * 3, [20])]


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_many_sentences_have_the_substitutes_of_each(language_model, batch_tokens, monkeypatch):
    sentences, positions = zip(*MANY, strict=True)
    # `elmo_tf.evaluation.perplexity` is also the function.
    module = importlib.import_module("elmo_tf.evaluation.perplexity")
    monkeypatch.setattr(module, "_LOGITS_IN_MEMORY", 2 * len(language_model.vocabulary))

    found = [*substitutes_of(language_model, sentences, positions, 3, ["the"], batch_tokens)]

    monkeypatch.undo()
    for one, (sentence, places) in zip(found, MANY, strict=True):
        wanted = substitutes(language_model, sentence, places, 3, ["the"])
        assert_same_substitutes(one, wanted)
