"""`elmo-tf neighbors`: an index is built once and then queried."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the bank raised | its rates", "they sat on the bank", "a bank lent", "the play was good"]


@pytest.fixture(scope="module")
def built(tmp_path_factory, checkpoint_directory):
    """A folder with a text and its index."""
    from elmo_tf import Embedder
    from elmo_tf.evaluation import build_occurrence_index

    folder = tmp_path_factory.mktemp("built")
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    build_occurrence_index(
        *(Embedder(checkpoint_directory), [folder / "text.txt"], folder / "index"),
        model=str(checkpoint_directory),
    )
    return folder


def _query(command, *arguments):
    status, out, err = command("neighbors", *arguments)
    assert status == 0, err
    return json.loads(out)


def test_the_first_call_builds_the_index_and_later_calls_reuse_it(command, checkpoint_directory):
    build = ("--index", "index", "--model", checkpoint_directory, "--corpus", "*.txt")
    first = _query(command, *build, "--max-tokens", "8")
    Path("text.txt").unlink()
    second = _query(command, "bank", "--index", "index")

    assert first["words"] == []
    assert first["index"] == second["index"]
    assert first["index"]["model"] == str(checkpoint_directory)
    assert (first["index"]["sentences"], first["index"]["tokens"]) == (2, 11)
    assert second["words"][0]["count"] == 2


def test_neighbors_are_printed_with_sentence_file_and_line(command, built):
    found = _query(
        command,
        *("bank", "--index", built / "index", "--sentence", "a bank lent", "--layer", "2"),
        *("--top", "2", "--same-word"),
    )

    [occurrence] = found["words"][0]["occurrences"]
    assert (occurrence["token"], occurrence["position"]) == ("bank", 1)
    assert (occurrence["file"], occurrence["line"]) == (None, None)
    assert list(occurrence["neighbors"]) == ["2"]
    nearest = occurrence["neighbors"]["2"]
    assert {one["sentence"] for one in nearest} == set(LINES[:2])
    for one in nearest:
        assert one["token"] == one["sentence"].split()[one["position"]] == "bank"
        assert (one["file"], LINES[one["line"] - 1]) == (str(built / "text.txt"), one["sentence"])
    assert nearest[0]["similarity"] >= nearest[1]["similarity"]


def test_layer_0_compares_types_of_several_words(command, built):
    found = _query(
        command, *("bank", "play", "--index", built / "index", "--layer", "0", "--top", "1")
    )

    for about, word in zip(found["words"], ("bank", "play"), strict=True):
        ((token, similarity),) = (near.values() for near in about["types"])
        assert token != word
        assert -1 <= similarity <= 1
        assert about["occurrences"] == []


def test_markdown_output_marks_the_word_in_its_context(command, built):
    long = "one two three four five six seven eight nine bank " + "x " * 9
    status, out, _ = command(
        *("neighbors", "bank", "--index", built / "index", "--format", "markdown"),
        *("--sentence", long, "--layer", "1", "0"),
    )

    assert status == 0
    assert "# bank (3 times)" in out
    assert "## … two three four five six seven eight nine **bank** x x x x x x x x …" in out
    assert "from --sentence" in out
    assert "| nearest in layer 0 " in out
    cells = next(line for line in out.splitlines() if line.endswith(" text.txt:1 |"))
    assert "raised" in cells
    assert "\\|" in cells
