import itertools

import numpy as np
import pytest

from elmo_tf.evaluation import full_softmax, sentence_scores, sentence_substitutes, substitutes

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCE = "the cat sat on 한국어 the mat"
TOKENS = SENTENCE.split()
WORDS = ["cat", "the", "on", "sat"]  # of the vocabulary


def scores_in_place(model, position):
    """The scores of each word, forward and backward, in a sentence that contains it."""
    sentences = [[*TOKENS[:position], word, *TOKENS[position + 1 :]] for word in WORDS]
    return {
        word: {
            "forward": score.token_log_probs["forward"][position],
            "backward": score.token_log_probs["backward"][position + 1],
        }
        for word, score in zip(WORDS, sentence_scores(model, sentences), strict=True)
    }


@pytest.mark.parametrize("position", [0, 3, 6])
def test_scores_equal_those_of_sentences_with_the_substitute(language_model, position):
    wanted = scores_in_place(language_model, position)

    (found,) = substitutes(language_model, SENTENCE, [position])

    best = sorted(WORDS, key=lambda word: -sum(wanted[word].values()))
    assert [token for token, _, _ in found] == best
    assert substitutes(language_model, TOKENS, [position], top_n=3) == [found[:3]]
    for token, log_probs, total in found:
        assert log_probs == pytest.approx(wanted[token], abs=1e-5)
        assert total == pytest.approx(sum(wanted[token].values()), abs=1e-5)


def test_results_do_not_depend_on_the_chunk_size(language_model, monkeypatch):
    whole = substitutes(language_model, TOKENS, range(7))
    monkeypatch.setattr(full_softmax, "_LOGITS_IN_MEMORY", 2 * len(language_model.vocabulary))

    parts = substitutes(language_model, TOKENS, range(7))

    for part, wanted in zip(parts, whole, strict=True):
        assert [s.token for s in part] == [s.token for s in wanted]
        np.testing.assert_allclose([s.total for s in part], [s.total for s in wanted], atol=1e-5)


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
def test_many_sentences_have_the_substitutes_of_each(language_model, batch_tokens):
    sentences, positions = zip(*MANY, strict=True)

    found = list(
        sentence_substitutes(language_model, sentences, positions, 3, ["the"], batch_tokens)
    )

    for one, (sentence, places) in zip(found, MANY, strict=True):
        wanted = substitutes(language_model, sentence, places, 3, ["the"])
        for best, wanted_best in zip(one, wanted, strict=True):
            assert [s.token for s in best] == [s.token for s in wanted_best]
            for substitute, other in zip(best, wanted_best, strict=True):
                assert substitute.log_probs == pytest.approx(other.log_probs, abs=1e-5)
                assert substitute.total == pytest.approx(other.total, abs=1e-5)


def test_one_batch_needs_one_model_call(language_model, monkeypatch):
    apart = [substitutes(language_model, TOKENS, [position])[0] for position in (5, 0, 0)]
    calls = []
    outputs = language_model.top_layer_outputs
    monkeypatch.setattr(
        language_model, "top_layer_outputs", lambda *args: calls.append(args) or outputs(*args)
    )

    assert substitutes(language_model, TOKENS, [5, 0, 0]) == apart
    list(sentence_substitutes(language_model, *zip(*MANY, strict=True)))

    assert len(calls) == 2


def test_sentences_are_read_in_bounded_numbers(language_model):
    found = sentence_substitutes(
        language_model, itertools.repeat("the cat"), itertools.repeat([1]), batch_tokens=4
    )

    assert next(found) == next(found)


@pytest.mark.parametrize(
    ("sentences", "positions", "settings", "error", "message"),
    [
        ("the cat", [[0]], {}, TypeError, r"must be several sentences, not one string.*'the cat'"),
        (["the", 7], [[0], [0]], {}, TypeError, r"a str or a list of tokens.*Sentence 1 is 7"),
        ([TOKENS], [[0, -1]], {}, ValueError, r"`positions` -1: .* has 7 tokens \(0 to 6\)\.$"),
        ([TOKENS], [[7]], {}, ValueError, r"Sentence 0: `positions` 7: .* has 7 tokens \(0 to 6\)"),
        (["the", "cat"], [[0], [1]], {}, ValueError, r"Sentence 1: .* has 1 token \(0\)\.$"),
        ([""], [[0]], {}, ValueError, r"the sentence has no tokens\.$"),
        ([TOKENS], [[1.0]], {}, TypeError, r"`positions` must be integers\. Received: 1\.0"),
        (["the", "cat"], [0, 0], {}, TypeError, r"Sentence 0: .* a list of integers\. Received: 0"),
        (["the", "cat"], [[0]], {}, ValueError, r"`sentences` and `positions` differ in length"),
        (["the"], [[0], [0]], {}, ValueError, r"`sentences` and `positions` differ in length"),
        (["the"], [[0]], {"batch_tokens": 0}, ValueError, r"`batch_tokens` must be an integer of"),
        (["the"], [[0]], {"top_n": 0}, ValueError, r"`top_n` must be an integer of at least 1\."),
        (["the"], [[0]], {"exclude": "the"}, TypeError, r"`exclude` must be several tokens.*'the'"),
    ],
)
def test_wrong_arguments_are_errors(language_model, sentences, positions, settings, error, message):
    with pytest.raises(error, match=message):
        list(sentence_substitutes(language_model, sentences, positions, **settings))
