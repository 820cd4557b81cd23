import functools
import gzip
import re

import pytest

from elmo_tf.text.corpus import count_files, lines_read_once, plain_files, read_sentences
from elmo_tf.text.reading import sentence_lines
from elmo_tf.text.sentence_files import sentence_reader

TEXT = b"\xef\xbb\xbf\n> sp|P1|INS Insulin\xff\r\nMKu\r\n tZ R\r\n\r\n>P2 > x\nAOB*\n>P3\n\nW"
SEQUENCES = {"sp|P1|INS": "MKXTXR", "P2": "AXX", "P3": "W"}


@pytest.mark.parametrize("name", ["a.fa", "a.fasta", "B.FAA.gz"])
def test_each_record_is_a_sentence_of_residues(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(gzip.compress(TEXT) if name.endswith(".gz") else TEXT)

    sentences = list(sentence_reader(file)())
    assert {one.identifier: "".join(one.tokens) for one in sentences} == SEQUENCES
    assert sentences[1].text == "A X X"
    residues = list(map(list, SEQUENCES.values()))
    assert list(read_sentences([file])) == residues
    lines = lines_read_once([file]).as_numpy_iterator()
    assert [line.decode().split() for line in lines] == residues
    assert count_files([file]).types == {"X": 4, "A": 1, "K": 1, "M": 1, "R": 1, "T": 1, "W": 1}


def test_fasta_is_converted_to_text_once(tmp_path):
    text, fasta, folder = tmp_path / "a.txt", tmp_path / "a.fasta", tmp_path / "text"
    text.write_text("A C\n")
    fasta.write_bytes(TEXT)

    first, second = plain_files([text, fasta], folder)
    assert first == text
    assert list(read_sentences([second])) == list(read_sentences([fasta]))
    written = second.stat().st_mtime_ns
    assert plain_files([text, fasta], folder) == [first, second]
    assert second.stat().st_mtime_ns == written
    assert plain_files([text], folder, "text") == [text]
    fasta.write_bytes(b">P1\nMKT\n")
    (second,) = plain_files([fasta], folder)
    assert second.read_text() == "M K T\n"


def test_invalid_records_are_listed_or_skipped(tmp_path, caplog):
    file = tmp_path / "a.fasta"
    file.write_text("A\n>P1\nA")
    with pytest.raises(ValueError, match=r"a\.fasta, line 1: FASTA must begin.*'A'.*rename"):
        list(sentence_reader(file)())
    records = [">P1 x\nAC\nD-E", ">P2\nA*C", ">P3", ">P4\n*", "> \nA", ">P5\nAC*", ">P5 y\nC"]
    file.write_text("\n".join(records))

    invalid = [
        "'P1' (line 1) is not a sequence of letters: 'ACD-E'",
        "'P2' (line 4) is not a sequence of letters: 'A*C'",
        "'P3' (line 6) is not a sequence of letters: ''",
        "'P4' (line 7) is not a sequence of letters: ''",
    ]
    lines = functools.partial(sentence_lines, file)
    unnamed = ["'' (line 9) has no identifier of its own", "'P5' (line 13) has no identifier"]
    for read, problems in ((sentence_reader(file), invalid + unnamed), (lines, invalid)):
        message = re.escape(f"{file}: invalid records: {'; '.join(problems)}")
        with pytest.raises(ValueError, match=message):
            list(read())
    (sentence,) = sentence_reader(file, on_invalid="skip")()
    assert (sentence.identifier, sentence.text) == ("P5", "A C")
    assert all(problem in caplog.text for problem in invalid + unnamed)
