import pytest

from elmo_tf.tasks.semantic_roles.scores import Argument, arguments, role_scores


def tags(length, **phrases):
    """BIO tags of phrases, by type: a first and a last token each. `C_A1` is C-A1."""
    result = ["O"] * length
    for name, spans in phrases.items():
        for first, last in spans:
            name_ = name.replace("_", "-")
            result[first : last + 1] = [f"B-{name_}"] + [f"I-{name_}"] * (last - first)
    return result


def precision_and_recall(gold, predicted):
    scores = role_scores([gold], [predicted])
    return scores["precision"], scores["recall"]


def test_an_incomplete_discontinuous_argument_is_wrong():
    gold = tags(8, A1=[(2, 3)], C_A1=[(6, 7)], A0=[(0, 0)])

    # A0 is correct; one argument is wrong and one is missing.
    for parts in (
        {"A1": [(2, 3)]},
        {"A1": [(6, 7)]},
        {"A1": [(2, 3)], "C_A1": [(6, 6)]},
        {"A1": [(2, 3)], "C_A1": [(5, 5), (7, 7)]},
        {"A1": [(2, 7)]},
    ):
        assert precision_and_recall(gold, tags(8, A0=[(0, 0)], **parts)) == (1 / 2, 1 / 2)
    two = tags(8, A0=[(0, 0)], A1=[(2, 3), (6, 7)])
    assert precision_and_recall(gold, two) == (1 / 3, 1 / 2)


def test_a_complete_discontinuous_argument_is_one_correct_argument():
    gold = tags(8, A1=[(2, 3)], C_A1=[(6, 7)])

    assert precision_and_recall(gold, gold) == (1, 1)
    assert role_scores([gold], [gold])["types"]["A1"]["arguments"] == 1


def test_a_continuation_without_a_head_counts_as_an_argument():
    gold = tags(8, A1=[(2, 3)])

    assert precision_and_recall(gold, tags(8, C_A1=[(2, 3)])) == (1, 1)
    assert set(role_scores([gold], [tags(8, C_A1=[(2, 3)])])["types"]) == {"A1"}


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


def test_arguments_are_correct_if_both_ends_and_the_type_match():
    gold = tags(9, A0=[(0, 1)], V=[(2, 2)], A1=[(3, 5)], AM_TMP=[(7, 8)])
    predicted = tags(9, A0=[(0, 1)], V=[(2, 2)], A1=[(3, 4)], AM_LOC=[(7, 8)])
    scores = role_scores([gold], [predicted])

    assert scores["precision"] == scores["recall"] == scores["f1"] == 1 / 3
    assert scores["types"]["A0"] == {"precision": 1, "recall": 1, "f1": 1, "arguments": 1}
    assert scores["types"]["AM-TMP"] == {"precision": 0, "recall": 0, "f1": 0, "arguments": 1}
    assert scores["types"]["AM-LOC"] == {"precision": 0, "recall": 0, "f1": 0, "arguments": 0}
    assert list(scores["types"]) == ["A0", "A1", "AM-LOC", "AM-TMP"]


def test_counts_are_summed_over_propositions():
    gold = [tags(4, A0=[(0, 0)], A1=[(2, 3)]), tags(5, A0=[(1, 1)]), tags(3)]
    predicted = [tags(4, A0=[(0, 0)]), tags(5, A0=[(1, 1)], A1=[(3, 4)], A2=[(0, 0)]), tags(3)]
    scores = role_scores(gold, predicted)

    assert (scores["precision"], scores["recall"]) == (2 / 4, 2 / 3)
    assert scores["f1"] == pytest.approx(4 / 7)
    assert scores["types"]["A0"]["f1"] == 1
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


def test_scores_are_defined_without_arguments_or_propositions():
    zero = {"precision": 0, "recall": 0, "f1": 0, "arguments": 0}

    assert role_scores([["O", "O"]], [["O", "O"]]) == {
        **zero,
        "perfect_propositions": 1,
        "propositions": 1,
        "types": {},
        "V": zero,
    }
    assert role_scores([], [])["perfect_propositions"] == 0
