import pytest

from elmo_tf.tasks.scores import label_scores, span_scores, tag_scores

GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC", "B-LOC"]]
# A correct span, one of a wrong type, an excess one, and one that merges two adjacent spans.
PREDICTED = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O"], ["B-LOC", "I-LOC"]]


def test_spans_are_correct_if_both_ends_and_the_type_match():
    scores = span_scores(GOLD, PREDICTED)

    # 4 gold spans, 4 predicted spans, and only the first person is correct.
    assert scores["precision"] == scores["recall"] == scores["f1"] == 0.25
    assert scores["spans"] == 4
    assert scores["types"]["PER"] == {"precision": 0.5, "recall": 1, "f1": 2 / 3, "spans": 1}
    assert scores["types"]["LOC"] == {"precision": 0, "recall": 0, "f1": 0, "spans": 3}


def test_scores_are_zero_without_spans():
    scores = span_scores([["O", "O"]], [["O", "O"]])

    assert (scores["f1"], scores["spans"], scores["types"]) == (0, 0, {})


def test_tag_accuracy_is_computed_per_token():
    assert tag_scores(GOLD, PREDICTED) == {"accuracy": 5 / 8, "tokens": 8}


def test_labels_are_scored_together_and_separately():
    scores = label_scores(["a", "a", "b", "c"], ["a", "b", "b", "d"])

    assert scores["accuracy"] == 0.5
    assert scores["examples"] == 4
    assert scores["labels"]["a"] == {"precision": 1, "recall": 0.5, "f1": 2 / 3, "examples": 2}
    assert scores["labels"]["d"]["examples"] == 0
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0 + 0) / 4)


def test_types_and_labels_may_have_any_names():
    scores = span_scores([["B-A-", "O"]], [["B-A", "O"]])
    assert (scores["f1"], set(scores["types"])) == (0, {"A", "A-"})
    assert set(span_scores([["B-macro avg"]], [["O"]])["types"]) == {"macro avg"}

    labels = ["accuracy", "macro avg", "weighted avg"]
    assert set(label_scores(labels, labels)["labels"]) == set(labels)
