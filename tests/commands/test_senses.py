"""`elmo-tf senses`: from files to a table, keys and JSON."""

import json
from pathlib import Path

import pytest

from elmo_tf.evaluation.senses import read_keys
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

RIVERSIDE = ["the", word("bank", "bank", "river%1"), "of", "the", "river"]
SAVINGS = [word("bank", "bank", "money%1"), "rates", word("rose", "rise", "rise%2", pos="verb")]
METHODS = ["first_sense", "most_frequent", "layer_0", "layer_1", "layer_2"]


@pytest.fixture
def senses(in_temporary_folder, stdout_of, checkpoint_directory):
    savings = [SAVINGS[0], "rates", "rose"]
    write_corpus(Path("train.data.xml"), [RIVERSIDE, savings, savings])
    write_corpus(Path("one.data.xml"), [RIVERSIDE, SAVINGS])
    write_corpus(Path("two.data.xml"), [[word("Oslo", "oslo", "oslo%1")]])
    write_inventory(Path("senses.tsv"), "bank n money%1", "bank n river%1", "rise v rise%2")
    files = ("--train", "train.data.xml", "--inventory", "senses.tsv")
    tests = ("--test", "one.data.xml", "two.data.xml")
    return lambda *options: stdout_of("senses", checkpoint_directory, *files, *tests, *options)


def test_scores_are_printed_as_json_and_answers_written_as_keys(senses, checkpoint_directory):
    content = json.loads(senses("--predictions", "answers"))

    assert content["model"] == str(checkpoint_directory)
    counts = {"one": 3, "two": 1, "noun": 3, "verb": 1, "adj": 0, "adv": 0, "all": 4}
    assert content["instances"] == counts
    assert list(content["f1"]) == METHODS
    # Three of three answers are right, and three of four instances.
    of_nouns = {"one": 1, "two": 0, "noun": 4 / 5, "verb": 1, "adj": None, "adv": None}
    assert content["f1"]["layer_2"] == pytest.approx({**of_nouns, "all": 6 / 7})
    assert content["f1"]["first_sense"]["one"] == pytest.approx(2 / 3)
    assert "answers" not in content

    files = sorted(path.name for path in Path("answers").iterdir())
    assert files == sorted(f"{name}.{one}.key.txt" for name in ("one", "two") for one in METHODS)
    assert Path("answers/two.layer_1.key.txt").read_text() == ""
    assert read_keys("answers/one.layer_1.key.txt") == {
        "s0.w1": ("river%1",),
        "s1.w0": ("money%1",),
        "s1.w2": ("rise%2",),
    }


def test_a_table_is_printed_and_outputs_are_replaced_with_overwrite(senses):
    Path("answers").mkdir()
    Path("answers/old.layer_0.key.txt").write_text("earlier")

    out = senses(
        *("--format", "markdown", "--predictions", "answers"),
        *("--overwrite", "--precision", "bfloat16"),
    )

    assert len(list(Path("answers").iterdir())) == 2 * len(METHODS)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    counts = ("one (3)", "two (1)", "noun (3)", "verb (1)", "adj (0)", "adv (0)", "all (4)")
    assert rows[0] == ["F1 (%)", *counts]
    assert rows[2] == ["first sense", "66.7", "0.0", "40.0", "100.0", "-", "-", "57.1"]
    assert rows[6] == ["layer 2", "100.0", "0.0", "80.0", "100.0", "-", "-", "85.7"]
