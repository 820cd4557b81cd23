from pathlib import Path

import pytest

from elmo_tf.evaluation.senses.sense_corpus import gold_path, read_keys, write_keys


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "text.gold.key.txt"
        path.write_text(text, "utf-8")
        return path

    return write


def test_gold_keys_stand_beside_their_text():
    assert gold_path("texts/semcor.data.xml") == Path("texts/semcor.gold.key.txt")


def test_a_text_of_another_name_has_no_gold_keys_beside_it():
    with pytest.raises(ValueError, match=r"Cannot find the gold keys of semcor\.xml"):
        gold_path("semcor.xml")


def test_an_occurrence_may_have_several_keys_and_each_counts_once(file):
    keys = read_keys(file("d0.t1 cat%1 cat%2 cat%1\n\nd0.t0 dog%1\r\n"))

    assert keys == {"d0.t1": ("cat%1", "cat%2"), "d0.t0": ("dog%1",)}


def test_what_is_written_can_be_read_and_no_answer_leaves_no_line(tmp_path):
    path = tmp_path / "answers.key.txt"

    write_keys(path, {"d0.t0": ("größe%1",), "d0.t1": (), "d0.t2": ("cat%1", "cat%2")})

    assert path.read_text("utf-8") == "d0.t0 größe%1\nd0.t2 cat%1 cat%2\n"
    assert read_keys(path) == {"d0.t0": ("größe%1",), "d0.t2": ("cat%1", "cat%2")}


def test_invalid_bytes_of_a_key_are_kept(tmp_path):
    one, other = tmp_path / "one.key.txt", tmp_path / "other.key.txt"
    one.write_bytes(b"d0.t0 gr\xf6sse%1\n")

    write_keys(other, read_keys(one))

    assert other.read_bytes() == one.read_bytes()


def test_a_line_without_a_key_is_named(file):
    with pytest.raises(
        ValueError, match=r"text\.gold\.key\.txt, line 2: 'd0\.t1' has no sense key"
    ):
        read_keys(file("d0.t0 cat%1\nd0.t1\n"))


def test_an_occurrence_on_two_lines_is_named(file):
    with pytest.raises(ValueError, match=r"line 3: 'd0\.t0' has sense keys on an earlier line"):
        read_keys(file("d0.t0 cat%1\nd0.t1 cat%1\nd0.t0 cat%2\n"))


def test_a_file_without_a_key_is_refused(file):
    with pytest.raises(ValueError, match=r"text\.gold\.key\.txt has no sense key"):
        read_keys(file("\n"))
