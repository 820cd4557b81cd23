import gzip
import random

import pytest

from elmo_tf.text.corpus import (
    MAX_SENTENCE_TOKENS,
    count_corpus,
    line_dataset,
    read_sentences,
    sentences_of,
)
from elmo_tf.text.sentence_files import sentence_reader
from elmo_tf.text.vocabulary import Vocabulary

TEXT = b"\xef\xbb\xbf\n> sp|P1|INS Insulin\xff\r\nMKu\r\n tZ R\r\n\r\n>P2 > x\nAOB*\n>P3\n\nW"
SEQUENCES = {"sp|P1|INS": "MKXTXR", "P2": "AXX", "P3": "W"}


@pytest.mark.parametrize("name", ["a.fa", "a.fasta", "B.FAA.gz"])
def test_each_record_is_a_sentence_of_residues_and_rare_ones_are_reported(tmp_path, name, caplog):
    file = tmp_path / name
    file.write_bytes(gzip.compress(TEXT) if name.endswith(".gz") else TEXT)

    for _ in range(2):  # a job reads its input several times
        sentences = list(sentence_reader(file)())
        assert {one.identifier: "".join(one.tokens) for one in sentences} == SEQUENCES
    assert sentences[1].text == "A X X"
    assert caplog.messages == [f"{file}: residues U, Z, O or B, which are read as X: 4."]
    residues = list(map(list, SEQUENCES.values()))
    assert list(read_sentences([file])) == residues
    assert [line.decode().split() for line in line_dataset([file]).as_numpy_iterator()] == residues
    vocabulary = Vocabulary.build([file])
    assert vocabulary.tokens[3:] == ("X", "A", "K", "M", "R", "T", "W")
    assert count_corpus([file], vocabulary).tokens == 10


def test_both_readers_give_the_same_residues_for_random_records(tmp_path):
    draw = random.Random(3)
    text = ""
    for number in range(200):
        length = 2 * MAX_SENTENCE_TOKENS + 7 if number == 9 else draw.randrange(1, 300)
        residues = "".join(draw.choices("ACDEFGHIKLMNPQRSTVWYJXBZUOacd", k=length))
        lines = "\n".join(residues[start : start + 60] for start in range(0, length, 60))
        text += f">{number}\n{lines}{'*' * (number % 2)}\n"
    (tmp_path / "odd.txt").write_text(text)

    lines = line_dataset([tmp_path / "odd.txt"], format="fasta").as_numpy_iterator()
    expected = list(read_sentences([tmp_path / "odd.txt"], "fasta"))
    assert [text.decode().split() for text, _ in sentences_of(list(lines))] == expected
    assert len(expected) == 202


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\n>P1\nA", "line 1: FASTA must begin with a header.*'A'.*rename the file"),
        (">P1 x\nAC\nD-E\n", r"record 'P1' \(line 1\), position 4: '-' is a gap.*letters"),
        (">P0\nA\n>P1\nA*C", r"record 'P1' \(line 3\), position 2: '\*' is not a residue"),
        (">P1\n>P2\nA", r"record 'P1' \(line 1\): the sequence is empty"),
        (">P1\nA\n>P2\n*\n", r"record 'P2' \(line 3\): the sequence is empty"),
        (">P1\nA\n>P2\nA\n>P1 y\nC", "line 5: the identifier 'P1' occurs twice"),
        (">P1\nA\n> \nA", "line 3: the header has no identifier"),
    ],
)
def test_wrong_records_raise_an_error_that_names_them(tmp_path, text, message):
    (tmp_path / "a.fasta").write_text(text)

    with pytest.raises(ValueError, match=rf"a\.fasta, {message}"):
        list(sentence_reader(tmp_path / "a.fasta")())


def test_fasta_and_text_cannot_be_one_corpus(tmp_path):
    for name in ("a.txt", "a.fasta"):
        (tmp_path / name).write_text(">P1\nA" if name == "a.fasta" else "A")

    with pytest.raises(ValueError, match=r"cannot be read together.* \S*a\.fasta\."):
        count_corpus([tmp_path / "a.txt", tmp_path / "a.fasta"], Vocabulary.build(["A"]))
