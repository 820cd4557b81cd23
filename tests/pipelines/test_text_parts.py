import gzip
import os

import pytest

from elmo_tf.pipelines import TextPart, part_sentences, parts_of
from elmo_tf.text.sentence_files import sentence_reader

LINES = b"the cat\n\n \xff a\nsat\r\n\xec\x84\x9c\xec\x9a\xb8 b"


@pytest.mark.parametrize("part_bytes", [1, 5, 9, 1000])
@pytest.mark.parametrize("content", [LINES, LINES + b"\n", b"\xef\xbb\xbf" + LINES, b"\n", b"x"])
def test_all_parts_together_give_the_sentences_of_the_file(
    tmp_path, content, part_bytes, monkeypatch
):
    monkeypatch.setattr("elmo_tf.pipelines._PART_BYTES", part_bytes)
    path = tmp_path / "a.txt"
    path.write_bytes(content)

    parts = parts_of(path)

    expected = list(sentence_reader(path)())
    assert [sentence for part in parts for sentence in part_sentences(part)] == expected
    assert [part.first for part in parts] == [
        sum(part.sentences for part in parts[:number]) for number in range(len(parts))
    ]
    assert len(parts) > 1 or part_bytes > 9 or len(content) < 3


@pytest.mark.parametrize("name", ["a.txt.gz", "a.conll"])
def test_compressed_and_conll_files_are_one_part(tmp_path, name, monkeypatch):
    monkeypatch.setattr("elmo_tf.pipelines._PART_BYTES", 1)
    path = tmp_path / name
    content = b"the DT\n\ncat NN\n"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    (part,) = parts_of(path)
    (tmp_path / "empty.txt").touch()
    assert parts_of(tmp_path / "empty.txt") == []

    assert part == (os.fspath(path), None, None, 0, part.sentences)
    assert list(part_sentences(part)) == list(sentence_reader(path)())


def test_errors_in_a_part_name_the_line_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo_tf.pipelines._PART_BYTES", 2)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb\nc\rd\n")
    last = parts_of(path)[-1]

    with pytest.raises(ValueError, match=r"a\.txt, line 3: a carriage return between two tokens"):
        list(part_sentences(last))


@pytest.mark.parametrize("content", [b"a", b"a\nb\nc\n"])
def test_a_file_that_changes_during_the_job_raises_an_error(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"a\.txt has changed since the job began"):
        list(part_sentences(TextPart(os.fspath(path), 0, 6, 0, 2)))
