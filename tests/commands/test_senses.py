"""`elmo-tf senses`: from files to tables, keys and JSON."""

import json
from pathlib import Path

import pytest

from elmo_tf.evaluation.sense_corpus import read_keys
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

RIVERSIDE = ["the", word("bank", "bank", "river%1"), "of", "the", "river"]
SAVINGS = [word("bank", "bank", "money%1"), "rates", word("rose", "rise", "rise%2", pos="verb")]
FILES = ("--train", "train.data.xml", "--inventory", "senses.tsv")
METHODS = [
    *("first_sense", "most_frequent", "layer_0", "layer_1", "layer_2"),
    *("layer_0_mahalanobis", "layer_1_mahalanobis", "layer_2_mahalanobis"),
]


@pytest.fixture(autouse=True)
def files(in_temporary_folder):
    savings = [SAVINGS[0], "rates", "rose"]
    write_corpus(Path("train.data.xml"), [RIVERSIDE, savings, savings], texts=[2, 1])
    write_corpus(Path("one.data.xml"), [RIVERSIDE, SAVINGS])
    write_corpus(Path("two.data.xml"), [[word("Oslo", "oslo", "oslo%1")]])
    write_inventory(Path("senses.tsv"), "bank n money%1", "bank n river%1", "rise v rise%2")


@pytest.fixture
def senses(command, checkpoint_directory):
    def call(*options):
        return command("senses", checkpoint_directory, *FILES, *options)

    return call


def test_scores_are_printed_as_json_and_answers_written_as_keys(senses, checkpoint_directory):
    status, out, _ = senses("--test", "one.data.xml", "two.data.xml", "--predictions", "answers")

    assert status == 0
    content = json.loads(out)
    assert content["model"] == str(checkpoint_directory)
    assert content["trained_on"] == {"sentences": 3, "instances": 3}
    assert list(content["results"]) == ["one", "two"]
    one, two = content["results"].values()
    assert (one["instances"], one["fell_back"], one["unanswered"]) == (3, 1, 0)
    assert (two["instances"], two["fell_back"], two["unanswered"]) == (1, 1, 1)
    assert list(one["scores"]) == METHODS
    right = {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert one["scores"]["layer_2"]["all"] == right | {"instances": 3}
    assert one["scores"]["layer_2"]["adj"] is None
    assert one["scores_where_trained"]["layer_2"]["all"] == right | {"instances": 2}
    assert one["scores"]["first_sense"]["noun"]["f1"] == 0.5
    # Three of three answers are right, and three of four instances.
    together = content["together"]["scores"]["layer_2"]["all"]
    assert (together["precision"], together["recall"]) == (1.0, 0.75)

    files = sorted(path.name for path in Path("answers").iterdir())
    assert files == sorted(f"{name}.{one}.key.txt" for name in ("one", "two") for one in METHODS)
    assert Path("answers/two.layer_1.key.txt").read_text() == ""
    assert read_keys("answers/one.layer_1.key.txt") == {
        "s0.w1": ("river%1",),
        "s1.w0": ("money%1",),
        "s1.w2": ("rise%2",),
    }


def test_tables_are_printed_and_outputs_replaced_with_overwrite(senses):
    Path("answers").mkdir()
    existing = Path("scores.json"), Path("answers/old.layer_0.key.txt")
    for path in existing:
        path.write_text("earlier")

    status, out, _ = senses(
        *("--test", "one.data.xml", "two.data.xml", "--format", "markdown"),
        *("--json", "scores.json", "--predictions", "answers", "--overwrite"),
        *("--precision", "bfloat16", "--batch-tokens", "7"),
    )

    assert status == 0
    content = json.loads(Path("scores.json").read_text("utf-8"))
    assert content["trained_on"] == {"sentences": 3, "instances": 3}
    assert list(content["results"]) == ["one", "two"]
    assert len(list(Path("answers").iterdir())) == 2 * len(METHODS)
    lines = out.splitlines()
    assert lines[0] == "Trained on 3 instances in 3 sentences."
    assert [line for line in lines if line.startswith("#")] == [
        *("## one", "## two", "## All test sets together")
    ]
    # "two" has no trained lemma, and "held_out" only trained ones.
    assert out.count("Only lemmas of the training text:") == 1
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert rows[0] == ["method", "all", "noun", "verb", "adj", "adv"]
    assert rows[2] == ["first sense", "66.7", "50.0", "100.0", "-", "-"]
    assert rows[6] == ["layer 2", "100.0", "100.0", "100.0", "-", "-"]
