import functools
import importlib
import itertools

import numpy as np
import pytest

from elmo_tf.evaluation import sentence_scores, substitutes
from reference import bilm as reference
from reference import softmax as reference_softmax

pytestmark = pytest.mark.usefixtures("eager_module")

# With unknown words, tokens that look like sentence boundaries, and empty lines.
LINES = ["the cat sat", "", "on the mat 한국어 the cat", "  ", "cat", "sat <S> on on </S> sat"]
LINES.append("the cat sat on mat " * 3)


@pytest.fixture(scope="module")
def scorer(language_model):
    return functools.partial(sentence_scores, language_model)


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_scores_equal_the_formula(scorer, language_model, options, weights, batch_tokens):
    softmax = language_model.softmax
    kernel, bias = softmax.kernel.numpy(), softmax.bias.numpy()
    for line, score in zip(LINES, scorer(LINES, batch_tokens), strict=True):
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


def test_an_endless_input_is_read_lazily(scorer):
    taken = itertools.count()
    lines = (f"the cat {next(taken)}" for _ in itertools.repeat(None))

    scores = itertools.islice(scorer(lines, batch_tokens=8), 20)

    assert [score.tokens[2] for score in scores] == [str(number) for number in range(20)]
    assert next(taken) < 20 + 16 * 8


def test_wrong_positions_are_errors(language_model):
    with pytest.raises(ValueError, match=r"has 7 tokens: there is no position -1"):
        substitutes(language_model, [TOKENS], [[0, -1]])


TOKENS = ["the", "cat", "sat", "on", "한국어", "the", "mat"]
WORDS = ["cat", "the", "on", "sat"]  # of the vocabulary
# Of different lengths, with several positions, a repeated one, or none.
MANY = [(TOKENS, [5, 0, 3]), (["cat"], [0]), ([], []), (["on", "it"], [1, 1]), (TOKENS * 3, [20])]


@pytest.fixture(scope="module", params=["language_model", "forward_model"])
def model_and_best(request):
    """A model, and for each position of `MANY` the words by the scores of sentences with them.

    Each word comes with its log probabilities.
    """
    model = request.getfixturevalue(request.param)
    places = [(tokens, place) for tokens, positions in MANY for place in positions]
    changed = (
        [*tokens[:place], word, *tokens[place + 1 :]] for tokens, place in places for word in WORDS
    )
    scores = sentence_scores(model, changed)
    best = []
    for _, place in places:
        at = {"forward": place, "backward": place + 1}
        found = [
            (word, {name: values[at[name]] for name, values in score.token_log_probs.items()})
            for word, score in zip(WORDS, scores, strict=False)
        ]
        best.append(sorted(found, key=lambda one: -sum(one[1].values())))
    return model, best


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_scores_of_substitutes_equal_those_of_sentences_with_them(
    model_and_best, batch_tokens, monkeypatch
):
    model, best = model_and_best
    # `elmo_tf.evaluation.perplexity` is also the function.
    module = importlib.import_module("elmo_tf.evaluation.perplexity")
    monkeypatch.setattr(module, "_LOGITS_IN_MEMORY", 2 * len(model.vocabulary))
    sentences, positions = zip(*MANY, strict=True)

    found = substitutes(model, sentences, positions, top_n=3, batch_tokens=batch_tokens)

    assert [len(places) for places in found] == [len(places) for places in positions]
    for substitutes_of, wanted in zip(itertools.chain(*found), best, strict=True):
        assert [one.token for one in substitutes_of] == [word for word, _ in wanted[:3]]
        for one, (_, log_probs) in zip(substitutes_of, wanted, strict=False):
            assert one.log_probs == pytest.approx(log_probs, abs=1e-5)
            assert one.total == pytest.approx(sum(log_probs.values()), abs=1e-5)


def test_special_tokens_are_not_returned(language_model):
    found = substitutes(language_model, [TOKENS], [[1]], top_n=1000)[0][0]
    assert {one.token for one in found} == {*language_model.vocabulary.tokens[3:]}
