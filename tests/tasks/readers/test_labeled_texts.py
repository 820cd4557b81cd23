import collections
import json

import pytest

from development_data import shared
from elmo_tf.tasks.classification.reader import (
    LabeledText,
    read_labeled,
    read_sentiment,
    read_trees,
)
from elmo_tf.tasks.entailment.reader import LabeledPair, read_pairs

TREE = r"(3 (2 (2 The) (1 -LRB-)) (4 (3 co-writer\/director) (2 2\*2)))"
PAIR = {"sentence1": "A man sleeps .", "sentence2": "He rests", "gold_label": "entailment"}


@pytest.fixture
def file(file):
    """Writes lines into a file of a name."""
    return lambda name, *lines: file("".join(f"{line}\n" for line in lines), name)


def test_a_tree_has_all_its_phrases_the_whole_first(file):
    trees = list(read_trees(file("trees.txt", "", TREE, "(0 bad)")))

    assert trees == [
        (
            2,
            [
                LabeledText(["The", "(", "co-writer/director", "2*2"], "3"),
                LabeledText(["The", "("], "2"),
                LabeledText(["The"], "2"),
                LabeledText(["("], "1"),
                LabeledText(["co-writer/director", "2*2"], "4"),
                LabeledText(["co-writer/director"], "3"),
                LabeledText(["2*2"], "2"),
            ],
        ),
        (3, [LabeledText(["bad"], "0")]),
    ]


def test_a_tree_may_be_as_deep_as_its_sentence_is_long(file):
    depth = 5000
    tree = "(2 " * depth + "end" + ")" * depth

    ((_, phrases),) = read_trees(file("deep.txt", tree))

    assert len(phrases) == depth


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 a) (2 b)", "not balanced: 1 brackets are not closed"),
        ("(3 a))", "not balanced: a closing bracket has no match"),
        ("a line of text", "'a' is outside of all brackets"),
        ("(3 a) (2 b)", "a second tree follows the first"),
        ("(3 a) b", "'b' is outside of all brackets"),
        ("((3 a))", "an opening bracket has no label"),
        ("(", "an opening bracket has no label"),
        ("(3 )", "a phrase has no token"),
        ("(3 (2 ) a)", "a phrase has no token"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(file, line, message):
    with pytest.raises(ValueError, match=r"trees\.txt, line 2: ") as error:
        list(read_trees(file("trees.txt", "(2 fine)", line)))

    assert message in str(error.value)


def test_sentences_of_trees_have_labels(file):
    path = file("trees.txt.gz", TREE, "(0 bad)")

    assert read_sentiment(path) == [
        LabeledText(["The", "(", "co-writer/director", "2*2"], "3"),
        LabeledText(["bad"], "0"),
    ]


def test_phrases_of_some_length_can_be_examples_too(file):
    texts = read_sentiment(file("trees.txt", TREE, "(0 bad)"), min_phrase_tokens=2)

    # A whole sentence is one, however short.
    assert [text.label for text in texts] == ["3", "2", "4", "0"]
    assert texts[1].tokens == ["The", "("]


def test_five_labels_can_become_two(file):
    path = file("trees.txt", "(0 a)", "(1 b)", "(2 c)", "(3 d)", "(4 e)")

    texts = read_sentiment(path, is_binary=True)

    assert ["".join(text.tokens) for text in texts] == ["a", "b", "d", "e"]
    assert [text.label for text in texts] == ["negative"] * 2 + ["positive"] * 2


def test_labels_of_sentiment_that_do_not_suit_are_refused_with_their_line(file):
    path = file("trees.txt", "(2 fine)", "(5 great)")

    with pytest.raises(ValueError, match=r"line 2: binary labels need .* 0 to 4 .*'5'"):
        read_sentiment(path, is_binary=True)
    with pytest.raises(ValueError, match=r"line 2: unknown label '5'. Known labels: 1, 2\."):
        read_sentiment(path, known=["1", "2"])
    with pytest.raises(ValueError, match=r"empty\.txt has no examples"):
        read_sentiment(file("empty.txt", ""))


def test_pairs_are_read_from_json_lines(file):
    undecided = {**PAIR, "gold_label": "-"}

    pairs = read_pairs(file("pairs.jsonl", json.dumps(PAIR), "", json.dumps(undecided)))

    assert pairs == [LabeledPair(["A", "man", "sleeps", "."], ["He", "rests"], "entailment")]


def test_tokens_are_those_of_the_parses_where_there_are_some(file):
    row = {
        **PAIR,
        "sentence1": "A man (old) sleeps.",
        "sentence1_binary_parse": "( ( A ( man ( -LRB- ( old -RRB- ) ) ) ) ( sleeps . ) )",
    }

    (pair,) = read_pairs(file("pairs.jsonl", json.dumps(row)))

    assert pair.premise == ["A", "man", "(", "old", ")", "sleeps", "."]
    (pair,) = read_pairs(file("blank.jsonl", json.dumps({**row, "sentence1_binary_parse": " "})))
    assert pair.premise == ["A", "man", "(old)", "sleeps."]


def test_labels_must_be_utf_8(file):
    path = file("pairs.jsonl", json.dumps(PAIR), json.dumps({**PAIR, "gold_label": "no\ud800"}))

    with pytest.raises(ValueError, match=r"pairs\.jsonl, line 2: the label is not valid UTF-8"):
        read_pairs(path)


def test_pairs_are_read_from_columns(file):
    path = file(
        "pairs.tsv.gz",
        "id\tsentence1\tsentence2\tgold_label",
        '1\tA "quoted man\tNobody\tcontradiction ',
        "2\tA\tB\t - ",
    )

    assert read_pairs(path) == [LabeledPair(["A", '"quoted', "man"], ["Nobody"], "contradiction")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("[1]", r"not a JSON object: '\[1\]"),
        (
            json.dumps({"sentence1": "a", "gold_label": "x"}),
            "`sentence2` is missing. Fields: sentence1, gold",
        ),
        (json.dumps({**PAIR, "gold_label": 3}), "the string `gold_label` is missing"),
        (json.dumps({**PAIR, "sentence2": " "}), "`sentence2` has no token"),
        (
            json.dumps({**PAIR, "gold_label": "perhaps"}),
            "unknown label 'perhaps'. Known .*: entailment",
        ),
    ],
)
def test_what_is_no_pair_is_refused_with_its_line(file, line, message):
    path = file("pairs.jsonl", json.dumps(PAIR), line)

    with pytest.raises(ValueError, match=rf"pairs\.jsonl, line 2: .*{message}"):
        read_pairs(path, known=["entailment"])


def test_cells_may_be_long_and_lines_end_in_carriage_returns(file):
    path = file("pairs.tsv", "sentence1\tsentence2\tgold_label", f"{'a ' * 70_000}\tb c\tx\r", "")

    (pair,) = read_pairs(path)

    assert (len(pair.premise), pair.hypothesis, pair.label) == (70_000, ["b", "c"], "x")


def test_columns_that_do_not_suit_are_refused(file):
    with pytest.raises(ValueError, match=r"line 1: there is no column sentence2, gold_label"):
        read_pairs(file("a.tsv", "sentence1\tlabel"))
    with pytest.raises(ValueError, match="line 3: 2 columns, not 3 as in line 1"):
        read_pairs(file("b.tsv", "sentence1\tsentence2\tgold_label", "a\tb\tx", "a\tb"))
    with pytest.raises(ValueError, match=r"line 1: there is no column .* Columns: none"):
        read_pairs(file("c.tsv"))
    with pytest.raises(ValueError, match=r"d\.jsonl has no examples"):
        read_pairs(file("d.jsonl", json.dumps({**PAIR, "gold_label": "-"})))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.csv", ["id, label ,text", '1,good,"so, ""good"""', "", "2,very  bad, not good "]),
        ("a.CSV.gz", ["\ufefftext,label\r", '"so,\n""good""",good\r', "not good,very bad\r"]),
        ("a.tsv", ["text\tlabel\tid", 'so, "good"\tgood\t1', "not good\t very bad\t2"]),
    ],
)
def test_labeled_texts_are_read_from_named_columns(file, name, lines):
    assert read_labeled(file(name, *lines)) == [
        LabeledText(["so,", '"good"'], "good"),
        LabeledText(["not", "good"], "very bad"),
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_text_may_be_a_long_document(file, name):
    separator = "," if name == "a.csv" else "\t"

    (found,) = read_labeled(file(name, f"text{separator}label", f"{'a ' * 80_000}{separator}x"))

    assert len(found.tokens) == 80_000


def test_columns_of_labeled_texts_have_other_names_or_numbers(file):
    rows = ["1\tgood\ta b", "2\tbad\tc"]
    texts = [LabeledText(["a", "b"], "good"), LabeledText(["c"], "bad")]
    path = file("header.tsv", "stars\tlabel\treview", *rows)

    assert read_labeled(path, text_column="review") == texts
    assert read_labeled(path, 3, "label") == texts  # one of them by name: there is a header
    assert read_labeled(file("plain.tsv", *rows), 3, 2) == texts


def test_a_header_that_is_read_as_an_example_is_warned_of(file, caplog):
    rows = ["good,a", "bad,b", "good,c", "bad,d"]
    read_labeled(file("a.csv", *rows), 2, 1)
    assert not caplog.text
    read_labeled(file("b.csv", "label,text", *rows), 2, 1)
    assert "b.csv, line 1: no other example has the label 'label'." in caplog.text


def test_without_labels_the_column_of_the_text_is_enough(file):
    def tokens(path, *columns):
        return [text.tokens for text in read_labeled(path, *columns, is_labeled=False)]

    assert tokens(file("a.csv", "id,text", "1,a b", "2,c")) == [["a", "b"], ["c"]]
    assert tokens(file("b.csv", "label,text", ",a b", "?,c")) == [["a", "b"], ["c"]]
    assert tokens(file("c.tsv", "x\ta b", "y\tc"), 2, 1) == [["a", "b"], ["c"]]
    assert tokens(file("d.tsv", "a b", "c"), 2, 1) == [["a", "b"], ["c"]]  # no other column


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: there is no column text, label. Columns: none"),
        (
            ["text,class"],
            r"line 1: there is no column label\. Columns: text, class\. .*--label-column",
        ),
        (["text,label,text"], "line 1: 2 columns have the name 'text'"),
        (["text,label", "a,x", ",x"], "line 3: the text is empty"),
        (["text,label", '"a\nb",x', " ,x"], "line 4: the text is empty"),
        (["text,label", "a, "], "line 2: the label is empty"),
        (["text,label", "a,z"], "line 2: unknown label 'z'. Known labels: x, y"),
        (["text,label", "a,x", "a"], "line 3: 1 columns, not 2 as in line 1"),
        (["text,label", "a,x", "", "a, b,x"], "line 4: 3 columns, not 2 as in line 1"),
        (["text,label", '"a" b,x'], r"line 2: not valid CSV \(',' expected after '\"'\)"),
        (["text,label", "a,x", '"b,x', "c,y"], r"line 3: not valid CSV \(unexpected end of data\)"),
        (["text,label"], "has no examples"),
    ],
)
def test_tables_that_do_not_suit_are_refused_with_their_line(file, lines, message):
    with pytest.raises(ValueError, match=rf"a\.csv(, | ){message}"):
        read_labeled(file("a.csv", *lines), known=["x", "y"])


def test_a_number_behind_the_last_column_is_refused(file):
    with pytest.raises(ValueError, match=r"a\.tsv, line 1: there is no column 3; the line has 2\."):
        read_labeled(file("a.tsv", "a\tx"), 3, 2)
    with pytest.raises(ValueError, match=r"a\.tsv, line 1: there is no column 3; the line has 2\."):
        read_labeled(file("a.tsv", "a\tx"), 3, 2, is_labeled=False)


def test_a_file_of_labeled_texts_is_known_by_its_name(file):
    with pytest.raises(ValueError, match=r"a\.txt: .* must end in \.csv or \.tsv"):
        read_labeled(file("a.txt", "text,label", "a,x"))


def test_real_trees_and_pairs():
    texts = read_sentiment(shared("data", "sst", "dev.txt"))
    pairs = read_pairs(shared("data", "nli", "snli", "dev.jsonl"))
    table = read_pairs(shared("data", "nli", "snli_cad", "train.tsv"))

    assert len(texts) == 1101
    assert set(collections.Counter(text.label for text in texts)) == set("01234")
    assert len(pairs) == 983
    assert len(table) == 1666
