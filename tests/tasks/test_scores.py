from fractions import Fraction

import pytest

from elmo_tf.tasks.scores import (
    Argument,
    answer_scores,
    arguments,
    coreference_scores,
    found_role_scores,
    label_scores,
    role_scores,
    span_scores,
    tag_scores,
)

GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC", "B-LOC"]]
# A correct span, one of a wrong type, an excess one, and one that merges two adjacent spans.
PREDICTED = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O"], ["B-LOC", "I-LOC"]]
ZERO = {"precision": 0, "recall": 0, "f1": 0}


def test_spans_are_correct_if_both_ends_and_the_type_match():
    scores = span_scores(GOLD, PREDICTED)

    # 4 gold spans, 4 predicted spans, and only the first person is correct.
    assert scores["precision"] == scores["recall"] == scores["f1"] == 0.25
    assert scores["spans"] == 4
    assert scores["types"]["PER"] == {"precision": 0.5, "recall": 1, "f1": 2 / 3, "spans": 1}
    assert scores["types"]["LOC"] == {"precision": 0, "recall": 0, "f1": 0, "spans": 3}
    assert tag_scores(GOLD, PREDICTED) == {"accuracy": 5 / 8, "tokens": 8}


def test_labels_are_scored_together_and_separately():
    scores = label_scores(["a", "a", "b", "c"], ["a", "b", "b", "d"])

    assert scores["accuracy"] == 0.5
    assert scores["examples"] == 4
    assert scores["labels"]["a"] == {"precision": 1, "recall": 0.5, "f1": 2 / 3, "examples": 2}
    assert scores["labels"]["d"]["examples"] == 0
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0 + 0) / 4)
    assert scores["confusion"] == {"a": {"a": 1, "b": 1}, "b": {"b": 1}, "c": {"d": 1}}


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
        ("a-b of the USA", "ab of usa", 1, 1),  # "a" is no article once the hyphen is deleted
        ("“a” l'Étoile", "“ ” létoile", 1, 1),  # only ASCII punctuation is deleted
    ],
)
def test_scores_equal_those_of_the_official_script(gold, predicted, em, f1):
    assert answer_scores([[gold]], [predicted]) == {"em": em, "f1": f1, "questions": 1}


def test_each_score_uses_its_best_gold_answer_and_no_prediction_scores_zero():
    gold = [["cat"], ["the"], ["a cat sat", "dog"], ["the red cat sat", "cat", "dog"]]
    scores = answer_scores(gold, ["cat", None, "cat", "red cat"])

    # An empty prediction would equal "the", which is empty after normalization.
    assert scores == {"em": 1 / 4, "f1": pytest.approx((1 + 2 / 3 + 4 / 5) / 4), "questions": 4}


def tags(length, **phrases):
    """BIO tags of phrases, by type: a first and a last token each. `C_A1` is C-A1."""
    result = ["O"] * length
    for name, spans in phrases.items():
        for first, last in spans:
            name_ = name.replace("_", "-")
            result[first : last + 1] = [f"B-{name_}"] + [f"I-{name_}"] * (last - first)
    return result


def test_an_argument_with_another_phrase_or_type_is_wrong():
    gold = tags(8, A1=[(2, 3)], C_A1=[(6, 7)], A0=[(0, 0)])

    # A0 is correct; one argument is wrong and one is missing.
    for parts in (
        {"A1": [(2, 3)]},
        {"A1": [(6, 7)]},
        {"A1": [(2, 3)], "C_A1": [(6, 6)]},
        {"A1": [(2, 3)], "C_A1": [(5, 5), (7, 7)]},
        {"A1": [(2, 7)]},
        {"A2": [(2, 3)], "C_A2": [(6, 7)]},
    ):
        scores = role_scores([gold], [tags(8, A0=[(0, 0)], **parts)])
        assert (scores["precision"], scores["recall"]) == (1 / 2, 1 / 2)
    two = role_scores([gold], [tags(8, A0=[(0, 0)], A1=[(2, 3), (6, 7)])])
    assert (two["precision"], two["recall"]) == (1 / 3, 1 / 2)


def test_roles_of_a_predicate_that_is_no_gold_one_are_wrong_and_of_a_missing_one_are_missed():
    one, other = tags(4, V=[(1, 1)], A0=[(0, 0)]), tags(4, V=[(2, 2)], A0=[(0, 0)], A1=[(3, 3)])

    gold = [{1: one, 2: other}, {}, {0: one}]
    scores = found_role_scores(gold, [{1: one, 3: one}, {2: other}, {}])

    # 3 gold predicates and 3 predicted ones; 4 gold and 4 predicted arguments, of which 1 is right.
    names = ("precision", "recall", "f1")
    third = dict.fromkeys(names, pytest.approx(1 / 3))
    assert scores["predicates"] == {**third, "predicates": 3}
    assert scores["end_to_end"] == {**dict.fromkeys(names, 0.25), "arguments": 4}


@pytest.mark.parametrize(
    ("bio", "expected"),
    [
        # A continuation before its head is a separate argument.
        (tags(8, C_A1=[(1, 2)], A1=[(4, 5)]), [("A1", (1, 2)), ("A1", (4, 5))]),
        # A continuation belongs to the latest argument of its type.
        (
            tags(9, A1=[(0, 0), (2, 2)], A0=[(4, 4)], C_A1=[(6, 6), (8, 8)]),
            [("A1", (0, 0)), ("A1", (2, 2), (6, 6), (8, 8)), ("A0", (4, 4))],
        ),
        # A reference is a separate type and can have continuations.
        (
            tags(6, A1=[(0, 0)], R_A1=[(2, 2)], C_R_A1=[(4, 5)]),
            [("A1", (0, 0)), ("R-A1", (2, 2), (4, 5))],
        ),
        # I-X after another type or O begins a phrase, and adjacent phrases are not merged.
        (["B-A1", "I-A1", "I-C-A1", "B-C-A1"], [("A1", (0, 1), (2, 2), (3, 3))]),
    ],
)
def test_continuations_are_joined_to_their_arguments(bio, expected):
    assert arguments(bio) == [Argument(name, tuple(phrases)) for name, *phrases in expected]


def test_counts_are_summed_over_propositions():
    gold = [tags(4, A0=[(0, 0)], A1=[(2, 3)]), tags(5, A0=[(1, 1)]), tags(3)]
    predicted = [tags(4, A0=[(0, 0)]), tags(5, A0=[(1, 1)], A1=[(3, 4)], A2=[(0, 0)]), tags(3)]
    scores = role_scores(gold, predicted)

    assert (scores["precision"], scores["recall"]) == (2 / 4, 2 / 3)
    assert scores["f1"] == pytest.approx(4 / 7)
    assert scores["types"] == {
        "A0": {"precision": 1, "recall": 1, "f1": 1, "arguments": 2},
        "A1": {**ZERO, "arguments": 1},
        "A2": {**ZERO, "arguments": 0},
    }
    # The one without arguments; not the one with excess arguments.
    assert scores["perfect_propositions"] == 1 / 3
    assert (scores["propositions"], scores["arguments"]) == (3, 3)


def test_verbs_are_scored_separately_and_not_as_arguments():
    gold = tags(6, A0=[(0, 0)], V=[(1, 1)], C_V=[(3, 3)])
    predicted = tags(6, A0=[(0, 0)], V=[(1, 1)])
    scores = role_scores([gold, predicted], [predicted, predicted])

    assert scores["f1"] == scores["perfect_propositions"] == 1
    assert scores["arguments"] == 2
    assert set(scores["types"]) == {"A0"}
    assert scores["V"] == {"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2, "arguments": 2}


def test_scores_are_defined_without_examples_spans_and_arguments():
    empty = [["O", "O"]]
    roles = {**ZERO, "arguments": 0}
    counts = {"perfect_propositions": 1, "propositions": 1, "types": {}}

    assert role_scores(empty, empty) == {**roles, **counts, "V": roles}
    assert role_scores([], [])["perfect_propositions"] == 0
    assert span_scores(empty, empty) == {**ZERO, "spans": 0, "types": {}}
    assert answer_scores([], []) == {"em": 0, "f1": 0, "questions": 0}


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
    (KEY, "a b c d e f", "0 0", "1/2 1", "13/18 13/36"),
    (KEY, "abcdef", "1 3/5", "1 7/18", "2/9 2/3"),
    (KEY, "axycdez", "1/3 1/6", "17/36 6/49", None),
    ("12345 67 89ABC", "12345 6789ABC", "1 9/10", "1 16/21", None),
    ("ABC DEFG", "AB CD FGH", "2/5 2/4", None, None),
    ("a b c d e f", "a b c d e f", "0 0", "1 1", "1 1"),
    # Not a test of the reference scorer: the most similar pair is not in the best matching.
    ("abc d", "abd c", "1/2 1/2", "2/3 2/3", "1/2 1/2"),
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


def test_a_document_may_have_no_entities():
    with_both = coreference_scores([KEY.split(), []], [["a", "de"], []])
    assert with_both == coreference_scores([KEY.split()], [["a", "de"]])

    without_prediction = coreference_scores([["ab"], ["cd"]], [["ab"], []])
    for metric in METRICS:
        assert recall_and_precision(without_prediction, metric) == (Fraction(1, 2), 1)
    without_gold = coreference_scores([["ab"], []], [["ab"], ["cd"]])
    for metric in METRICS:
        assert recall_and_precision(without_gold, metric) == (1, Fraction(1, 2))
    for gold, predicted in (([], []), ([[]], [[]]), ([["ab"]], [[]])):
        found = coreference_scores(gold, predicted)
        assert found == {**dict.fromkeys(METRICS, ZERO), "average": 0}


def test_repeated_mentions_count_only_at_their_first_occurrence():
    once = coreference_scores([["abc", "de"]], [["ab", "cd"]])
    assert coreference_scores([["abc", "de"]], [["aba", "bcda", "ab"]]) == once
    assert coreference_scores([["abac", "dea", "c"]], [["ab", "cd"]]) == once
