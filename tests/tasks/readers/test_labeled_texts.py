import json

import pytest

from elmo_tf.tasks.classification import LabeledText, read_labeled, read_sentiment, read_trees
from elmo_tf.tasks.entailment import LabeledPair, read_pairs
from elmo_tf.tasks.registry import TASKS

TREE = r"(3 (2 (2 The) (1 -LRB-)) (4 (3 co-writer\/director) (2 2\*2)))"
PAIR = {"sentence1": "A man sleeps .", "sentence2": "He rests", "gold_label": "entailment"}


@pytest.fixture
def file(file):
    """Writes lines into a file of a name."""
    return lambda name, *lines: file("".join(f"{line}\n" for line in lines), name)


def test_a_tree_has_all_its_phrases_the_whole_first(file):
    trees = read_trees(file("trees.txt", "", TREE, "(0 bad)"))

    found = [(line, " ".join(one.tokens), one.label) for line, phrases in trees for one in phrases]
    assert found == [
        (2, "The ( co-writer/director 2*2", "3"),
        (2, "The (", "2"),
        (2, "The", "2"),
        (2, "(", "1"),
        (2, "co-writer/director 2*2", "4"),
        (2, "co-writer/director", "3"),
        (2, "2*2", "2"),
        (3, "bad", "0"),
    ]


def test_trees_and_text_without_labels_are_told_apart(file):
    def read(*lines):
        texts = TASKS["sst"]().read_inputs(file("in.txt", *lines), None)
        return [" ".join(text.tokens) for text in texts]

    assert read("", TREE, "(0 bad)") == ["The ( co-writer/director 2*2", "bad"]
    assert read("(a) film", "") == ["(a) film", ""]


def test_a_tree_may_be_as_deep_as_its_sentence_is_long(file):
    depth = 5000
    tree = "(2 " * depth + "end" + ")" * depth

    ((_, phrases),) = read_trees(file("deep.txt", tree))

    assert len(phrases) == depth


def test_phrases_of_some_length_can_be_examples_too(file):
    path = file("trees.txt.gz", TREE, "(0 bad)")

    texts = read_sentiment(path, min_phrase_tokens=2)

    assert read_sentiment(path) == [texts[0], texts[3]]
    # A whole sentence is one, however short.
    assert [text.label for text in texts] == ["3", "2", "4", "0"]
    assert texts[1].tokens == ["The", "("]


def test_five_labels_can_become_two(file):
    path = file("trees.txt", "(0 a)", "(1 b)", "(2 c)", "(3 d)", "(4 e)")

    texts = read_sentiment(path, is_binary=True)

    assert ["".join(text.tokens) for text in texts] == ["a", "b", "d", "e"]
    assert [text.label for text in texts] == ["negative"] * 2 + ["positive"] * 2


def test_pairs_in_json_lines_have_the_tokens_of_their_parses_if_there_are_some(file):
    old = {**PAIR, "sentence1": "A man (old) sleeps."}
    parse = "( ( A ( man ( -LRB- ( old -RRB- ) ) ) ) ( sleeps . ) )"
    parsed = [{**old, "sentence1_binary_parse": each} for each in (parse, " ")]
    rows = map(json.dumps, [PAIR, *parsed, {**PAIR, "gold_label": "-"}])

    first, *others = read_pairs(file("pairs.jsonl", "", *rows))

    assert first == LabeledPair(["A", "man", "sleeps", "."], ["He", "rests"], "entailment")
    assert [pair.premise for pair in others] == [
        ["A", "man", "(", "old", ")", "sleeps", "."],
        ["A", "man", "(old)", "sleeps."],
    ]
    (line,) = TASKS["snli"]().lines([LabeledPair(["\udcff"], ["b"], "x")], ["e"])
    assert json.loads(line.encode())["sentence1"] == "\udcff"


def test_pairs_are_read_from_columns(file):
    path = file(
        "pairs.tsv.gz",
        "id\tsentence1\tsentence2\tgold_label",
        '1\tA "quoted man\tNobody\tcontradiction ',
        "2\tA\tB\t - ",
    )

    assert read_pairs(path) == [LabeledPair(["A", '"quoted', "man"], ["Nobody"], "contradiction")]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["id, label ,text", '1,good,"so, ""good"""', "", "2,very  bad, not good "]),
        ("a.CSV.gz", ["\ufefftext,label\r", '"so,\n""good""",good\r', "not good,very bad\r"]),
        ("a.tsv", ["text\tlabel\r", 'so, "good"\tgood\r', "not good\t very bad\r"]),
        (
            "a.jsonl",
            [
                r'{"text": "so,\n\"good\"", "label": "good"}',
                '{"label": "very bad", "id": 2, "text": "not good"}',
            ],
        ),
    ],
)
def test_labeled_texts_are_read_from_named_columns(file, name, lines):
    assert read_labeled(file(name, *lines)) == [
        LabeledText(["so,", '"good"'], "good"),
        LabeledText(["not", "good"], "very bad"),
    ]


def test_columns_of_labeled_texts_have_other_names_or_numbers(file):
    rows = ["1\tgood\ta b", "2\tbad\tc"]
    texts = [LabeledText(["a", "b"], "good"), LabeledText(["c"], "bad")]
    path = file("header.tsv", "stars\tlabel\treview", *rows)

    assert read_labeled(path, text_column="review") == texts
    assert read_labeled(path, 3, "label") == texts  # one of them by name: there is a header
    assert read_labeled(file("plain.tsv", *rows), 3, 2) == texts


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_other_encodings_of_tables_are_reported(name, tmp_path, caplog):
    path, lines = tmp_path / name, '{"text": "café",\t"label": 1}\n'
    if name == "a.csv":
        lines = "text,label\ncafé,1\n"
    path.write_text(lines, encoding="latin-1")
    assert read_labeled(path) == [LabeledText(["caf\udce9"], "1")]
    assert "1 with invalid UTF-8 (read byte for byte; another encoding?)" in caplog.text
    path.write_text(lines, encoding="utf-16")
    with pytest.raises(ValueError, match=rf"{name}, line 1: NUL bytes. Is the file UTF-16"):
        read_labeled(path)


def test_without_labels_the_column_of_the_text_is_enough(file):
    def tokens(path, *columns):
        return [text.tokens for text in read_labeled(path, *columns, is_labeled=False)]

    assert tokens(file("a.csv", "id,text", "1,a b", "2,", "3,c")) == [["a", "b"], [], ["c"]]
    assert tokens(file("a.csv", "id,text")) == []
    assert tokens(file("b.csv", "label,text", ",a b", "?,c")) == [["a", "b"], ["c"]]
    assert tokens(file("c.tsv", "x\ta b", "y\tc"), 2, 1) == [["a", "b"], ["c"]]
