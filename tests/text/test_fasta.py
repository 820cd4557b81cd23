import gzip

import pytest

from elmo_tf.text.corpus import count_files, lines_read_once, plain_files, read_sentences
from elmo_tf.text.sentence_files import sentence_reader
from elmo_tf.text.vocabulary import Vocabulary

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
    vocabulary = Vocabulary.build([file])
    assert vocabulary.tokens[3:] == ("X", "A", "K", "M", "R", "T", "W")
    assert count_files([file]).tokens == 10


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\n>P1\nA", "line 1: FASTA must begin with a header.*'A'.*rename the file"),
        (">P1 x\nAC\nD-E\n", r"record 'P1' \(line 1\): a sequence must.*letters.*'ACD-E'"),
        (">P0\nA\n>P1\nA*C", r"record 'P1' \(line 3\): a sequence must.*'A\*C'"),
        (">P1\n>P2\nA", r"record 'P1' \(line 1\): a sequence must.*''"),
        (">P1\nA\n>P2\n*\n", r"record 'P2' \(line 3\): a sequence must.*''"),
        (
            ">P1\nA\n>P2\nA\n>P1 y\nC",
            "line 5: each record needs an identifier of its own. Received: 'P1'",
        ),
        (">P1\nA\n> \nA", "line 3: each record needs an identifier of its own. Received: ''"),
    ],
)
def test_wrong_records_raise_an_error_that_names_them(tmp_path, text, message):
    (tmp_path / "a.fasta").write_text(text)

    with pytest.raises(ValueError, match=rf"a\.fasta, {message}"):
        list(sentence_reader(tmp_path / "a.fasta")())
