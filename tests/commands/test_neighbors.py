"""`elmo-tf neighbors`: words in the context of a sentence or of a corpus."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the bank raised | its rates", "they sat on the bank", "a bank lent", "the play was good"]


@pytest.fixture
def neighbors(stdout_of, checkpoint_directory):
    options = ("--model", checkpoint_directory, "--corpus", "*.txt")
    return lambda *arguments: stdout_of("neighbors", *arguments, *options)


def test_neighbors_of_a_sentence_are_printed_with_sentence_file_and_line(neighbors):
    out = neighbors(
        "bank", "--sentence", "a bank lent", "--layer", "2", "--top", "2", "--only", "same"
    )

    found = json.loads(out)
    assert (found["sentences"], found["tokens"]) == (4, 18)
    [occurrence] = found["occurrences"]
    assert (occurrence["token"], occurrence["position"]) == ("bank", 1)
    assert (occurrence["file"], occurrence["line"]) == (None, None)
    assert list(occurrence["neighbors"]) == ["2"]
    nearest = occurrence["neighbors"]["2"]
    assert {one["sentence"] for one in nearest} == set(LINES[:2])
    for one in nearest:
        assert one["token"] == one["sentence"].split()[one["position"]] == "bank"
        assert (one["file"], LINES[one["line"] - 1]) == ("text.txt", one["sentence"])
    assert nearest[0]["similarity"] >= nearest[1]["similarity"]


def test_several_words_are_looked_up_by_stored_vectors(command, checkpoint_directory, neighbors):
    assert command("embed", checkpoint_directory, "text.txt", "vectors.hdf5")[0] == 0
    options = ("--occurrences", "3", "--layer", "0", "2")

    found = json.loads(neighbors("bank", "play", *options, "--vectors", "vectors.hdf5"))

    assert [one["token"] for one in found["occurrences"]] == ["bank"] * 3 + ["play"]
    assert all(one["token"] != "bank" for one in found["occurrences"][0]["neighbors"]["0"])
    assert json.loads(neighbors("bank", "play", *options)) == found


def test_markdown_output_marks_the_word_in_its_context(neighbors):
    long = "one two three four five six seven eight nine bank " + "x " * 9

    out = neighbors("bank", "--format", "markdown", "--sentence", long, "--layer", "1")

    assert "## … two three four five six seven eight nine **bank** x x x x x x x x …" in out
    assert "from --sentence" in out
    cells = next(line for line in out.splitlines() if line.endswith(" text.txt:1 |"))
    assert "raised" in cells
    assert "\\|" in cells
