from fractions import Fraction

import pytest

from elmo_tf.tasks.coreference.scores import coreference_scores

METRICS = ("muc", "b_cubed", "ceaf_e")


def exact(score):
    """Returns a score as a fraction with a small denominator."""
    fraction = Fraction(score).limit_denominator(10_000)
    assert float(fraction) == pytest.approx(score, abs=1e-14)
    return fraction


def recall_and_precision(scores, metric):
    return exact(scores[metric]["recall"]), exact(scores[metric]["precision"])


# The tests of the reference scorer: recall and precision of MUC, B³ and CEAF-φ4, where given.
# A letter is a mention, a word is an entity.
KEY = "a bc def"
GOLDENS = [
    (KEY, "a bc def", "1 1", "1 1", "1 1"),
    (KEY, "a de", "1/3 1", "7/18 1", "3/5 9/10"),
    (KEY, "a bcx defy z", "1 3/5", "1 55/108", "31/35 93/140"),
    (KEY, "a bcx dy z", "1/3 1/3", "5/9 17/42", "11/15 11/20"),
    (KEY, "a bcxb dy z", "1/3 1/3", "5/9 17/42", "11/15 11/20"),
    (KEY, "a bcx dy bz", "1/3 1/3", "5/9 17/42", "11/15 11/20"),
    (KEY, "a bcxB dy z", "1/3 1/4", "5/9 5/16", "31/45 31/60"),
    (KEY, "a b c d e f", "0 0", "1/2 1", None),
    (KEY, "abcdef", "1 3/5", "1 7/18", None),
    (KEY, "axycdez", "1/3 1/6", "17/36 6/49", None),
    ("12345 67 89ABC", "12345 6789ABC", "1 9/10", "1 16/21", None),
    ("ABC DEFG", "AB CD FGH", "2/5 2/4", None, None),
    ("a b c d e f", "a b c d e f", "0 0", "1 1", "1 1"),
]


@pytest.mark.parametrize(("gold", "predicted", *METRICS), GOLDENS)
def test_scores_equal_those_of_the_reference_scorer(gold, predicted, muc, b_cubed, ceaf_e):
    scores = coreference_scores([gold.split()], [predicted.split()])

    for metric, expected in zip(METRICS, (muc, b_cubed, ceaf_e), strict=True):
        if expected:
            recall, precision = recall_and_precision(scores, metric)
            assert (recall, precision) == tuple(map(Fraction, expected.split()))
            f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0
            assert scores[metric]["f1"] == pytest.approx(float(f1))
    mean = sum(scores[metric]["f1"] for metric in METRICS) / 3
    assert scores["average"] == pytest.approx(mean)


def test_numerators_and_denominators_are_summed_over_documents():
    scores = coreference_scores([KEY.split(), ["pq"]], [["a", "de"], ["pq"]])

    assert recall_and_precision(scores, "muc") == (Fraction(1 + 1, 3 + 1), 1)
    assert recall_and_precision(scores, "b_cubed") == (Fraction(7 + 3 * 2, 3 * (6 + 2)), 1)
    assert recall_and_precision(scores, "ceaf_e") == (Fraction(14, 5 * 4), Fraction(14, 5 * 3))


def test_mentions_of_different_documents_differ():
    apart = coreference_scores([["ab"], ["cd"]], [["cd"], ["ab"]])

    assert [apart[metric]["f1"] for metric in METRICS] == [0, 0, 0]


def test_a_document_may_have_no_entities():
    with_both = coreference_scores([KEY.split(), []], [["a", "de"], []])
    assert with_both == coreference_scores([KEY.split()], [["a", "de"]])

    without_prediction = coreference_scores([["ab"], ["cd"]], [["ab"], []])
    for metric in METRICS:
        assert recall_and_precision(without_prediction, metric) == (Fraction(1, 2), 1)
    without_gold = coreference_scores([["ab"], []], [["ab"], ["cd"]])
    for metric in METRICS:
        assert recall_and_precision(without_gold, metric) == (1, Fraction(1, 2))


@pytest.mark.parametrize(("gold", "predicted"), [([], []), ([[]], [[]]), ([["ab"]], [[]])])
def test_scores_are_zero_without_entities(gold, predicted):
    zero = {"precision": 0, "recall": 0, "f1": 0}

    assert coreference_scores(gold, predicted) == {**dict.fromkeys(METRICS, zero), "average": 0}


def test_repeated_mentions_count_only_at_their_first_occurrence():
    once = coreference_scores([["abc", "de"]], [["ab", "cd"]])

    assert coreference_scores([["abc", "de"]], [["aba", "bcda", "ab"]]) == once
    assert coreference_scores([["abac", "dea", "c"]], [["ab", "cd"]]) == once


def test_mentions_may_be_hashable_values_in_any_collections():
    spans = [{(0, 1), (4, 4)}, (), ((2, 3),)]

    scores = coreference_scores([spans], [iter([[(2, 3)], [(4, 4), (0, 1)]])])
    assert scores["average"] == 1
