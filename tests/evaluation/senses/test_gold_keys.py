import pytest

from elmo_tf.evaluation.senses.sense_corpus import gold_path, read_keys, write_keys


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "text.gold.key.txt"
        path.write_text(text, "utf-8")
        return path

    return write


def test_a_corpus_file_with_another_suffix_is_refused():
    with pytest.raises(ValueError, match=r"Cannot find the gold keys of semcor\.xml"):
        gold_path("semcor.xml")


def test_an_occurrence_may_have_several_keys_without_duplicates(file):
    keys = read_keys(file("d0.t1 cat%1 cat%2 cat%1\n\nd0.t0 dog%1\r\n"))

    assert keys == {"d0.t1": ("cat%1", "cat%2"), "d0.t0": ("dog%1",)}


def test_written_keys_round_trip_and_missing_answers_are_omitted(tmp_path):
    path = tmp_path / "answers.key.txt"

    keys = {"d0.t0": ("größe%1",), "d0.t2": ("cat%1", "gr\udcf6sse%1")}  # an invalid byte
    write_keys(path, {**keys, "d0.t1": ()})

    assert path.read_bytes() == "d0.t0 größe%1\nd0.t2 cat%1 ".encode() + b"gr\xf6sse%1\n"
    assert read_keys(path) == keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d0.t0 cat%1\nd0.t1\n", r"text\.gold\.key\.txt, line 2: 'd0\.t1' has no sense key"),
        ("a cat%1\nb cat%1\na cat%2\n", r"line 3: 'a' has sense keys on an earlier line"),
        ("\n", r"text\.gold\.key\.txt has no sense key"),
    ],
)
def test_an_invalid_file_is_reported_with_the_line(file, text, message):
    with pytest.raises(ValueError, match=message):
        read_keys(file(text))
