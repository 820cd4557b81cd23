import pytest

from elmo_tf.tasks.question_answering.scores import answer_scores, normalized_answer


@pytest.mark.parametrize(
    ("gold", "predicted", "em", "f1"),
    [
        ("The Cat.", "cat", 1, 1),
        ("a cat sat", "cat", 0, 2 / 3),
        ("cat", "a cat sat", 0, 2 / 3),
        ("the", "an", 1, 0),  # both are empty after normalization, so no token is shared
        ("", "", 1, 0),
        ("cat", "the", 0, 0),
        ("cat cat dog", "cat cat cat", 0, 2 / 3),  # multisets: two of three
        ("$1.5 million", "15 million", 1, 1),
        ("Beyoncé", "beyonce", 0, 0),
    ],
)
def test_scores_equal_those_of_the_official_script(gold, predicted, em, f1):
    assert answer_scores([[gold]], [predicted]) == {"em": em, "f1": f1, "questions": 1}


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("  The \t Cat\n", "cat"),
        ("a-b", "ab"),  # its "a" is no article once the hyphen is deleted
        ("a - b", "b"),
        ("an the a", ""),
        ("anthem of the USA", "anthem of usa"),
        ("“a” cat", "“ ” cat"),  # only ASCII punctuation is deleted, but articles end at any
        ("l'Étoile", "létoile"),
    ],
)
def test_answers_are_compared_without_case_punctuation_and_articles(text, normalized):
    assert normalized_answer(text) == normalized


def test_each_score_uses_its_best_gold_answer():
    scores = answer_scores([["the", "red cat", "cat sat"]], ["an"])
    assert (scores["em"], scores["f1"]) == (1, 0)

    scores = answer_scores([["the red cat sat", "cat", "dog"]], ["red cat"])
    assert (scores["em"], scores["f1"]) == (0, pytest.approx(4 / 5))


def test_questions_without_a_prediction_score_zero():
    scores = answer_scores([["cat"], ["the"], ["a cat sat"], ["dog"]], ["cat", None, "cat", "cat"])

    # An empty prediction would equal "the", which is empty after normalization.
    assert scores == {"em": 1 / 4, "f1": pytest.approx((1 + 2 / 3) / 4), "questions": 4}


def test_scores_are_zero_without_questions():
    assert answer_scores([], []) == {"em": 0, "f1": 0, "questions": 0}
