import pytest

from elmo_tf.evaluation import SenseScore, sense_score, sense_scores

GOLD = {"a": ("s1",), "b": ("s1", "s2"), "c": ("s3",), "d": ("s4",)}


def test_correct_and_wrong_answers_are_counted():
    # a and b are right (one of several gold keys is enough), c and d wrong.
    score = sense_score(GOLD, {"a": ["s1"], "b": ["s2"], "c": ["s1"], "d": ["s1"]})

    assert score == SenseScore(correct=2.0, answered=4, occurrences=4)
    assert (score.precision, score.recall, score.f1) == (0.5, 0.5, 0.5)


def test_a_missing_answer_lowers_only_recall():
    # Two of two answers are correct, for two of four occurrences.
    score = sense_score(GOLD, {"a": ["s1"], "b": ["s1"], "c": []})

    assert (score.precision, score.recall) == (1.0, 0.5)
    assert score.f1 == pytest.approx(2 / 3)  # 2 · 1 · ½ / 1½


def test_several_answers_share_the_credit_of_an_occurrence():
    # a: one of two is right, ½; b: two of three, ⅔; c: a repeated answer counts once, 1; d: 0.
    answers = {"a": ["s1", "s9"], "b": ["s1", "s2", "s3"], "c": ["s3", "s3"], "d": ["s1", "s2"]}

    score = sense_score(GOLD, answers)

    assert score.correct == pytest.approx(0.5 + 2 / 3 + 1)
    assert score.recall == pytest.approx((0.5 + 2 / 3 + 1) / 4)


def test_scores_are_zero_without_answers_or_occurrences():
    for score in (sense_score(GOLD, {}), sense_score({}, {"a": ["s1"]})):
        assert (score.precision, score.recall, score.f1) == (0.0, 0.0, 0.0)


def test_parts_of_speech_are_scored_separately_and_together():
    pos = {"a": "noun", "b": "verb", "c": "noun", "d": "adv"}

    scores = sense_scores(GOLD, {"a": ["s1"], "b": ["s1"], "c": ["s9"]}, pos)

    assert list(scores) == ["all", "noun", "verb", "adj", "adv"]
    assert scores["noun"] == SenseScore(1.0, 2, 2)
    assert scores["verb"] == SenseScore(1.0, 1, 1)
    assert scores["adj"] == SenseScore()
    assert scores["adv"] == SenseScore(0.0, 0, 1)
    parts = [scores[part] for part in ("noun", "verb", "adj", "adv")]
    assert sum(parts, SenseScore()) == scores["all"] == SenseScore(2.0, 3, 4)
