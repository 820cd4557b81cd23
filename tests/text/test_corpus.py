import gzip
import os

import pytest

from elmo_tf.text.corpus import (
    CorpusCount,
    count_corpus,
    read_sentences,
    sentence_dataset,
    text_files,
)
from elmo_tf.text.vocabulary import Vocabulary

LINES = ["the cat", "", "  ", "한국어\u3000sat\u00a0on ", "the\u0085mat\r", "\udcff the", "last"]
TOKENS = [line.split() for line in LINES if line.split()]


@pytest.fixture
def files(tmp_path):
    """The same lines, plain and packed, without a newline at the end."""
    content = "\n".join(LINES).encode("utf-8", errors="surrogateescape")
    (tmp_path / "plain.txt").write_bytes(content)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(content))
    return [tmp_path / "plain.txt", tmp_path / "packed.txt.gz"]


def decoded(dataset):
    return [
        [token.decode("utf-8", errors="surrogateescape") for token in tokens]
        for tokens in dataset.as_numpy_iterator()
    ]


def test_lines_are_cut_into_tokens_and_empty_ones_passed_over(files):
    assert list(read_sentences(files)) == TOKENS + TOKENS


def test_a_dataset_gives_the_same_tokens(files):
    assert [tokens for tokens in decoded(sentence_dataset(files)) if tokens] == TOKENS + TOKENS


def test_the_name_of_a_file_may_be_any_bytes(tmp_path):
    (tmp_path / "odd\udcff.txt").write_text("a b")

    files = text_files([tmp_path / "odd*.txt"])

    assert decoded(sentence_dataset(files)) == list(read_sentences(files)) == [["a", "b"]]


def test_carriage_returns_beside_white_space_change_nothing(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"a b\r\nc \rd\r\r\n\re\n")
    files = [tmp_path / "text.txt"]

    assert decoded(sentence_dataset(files)) == list(read_sentences(files))
    assert list(read_sentences(files)) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_carriage_return_alone_between_tokens_is_refused_with_its_line(tmp_path):
    # The dataset would read one token, where `str.split()` finds two.
    (tmp_path / "text.txt").write_bytes(b"a b\nc\rd\n")

    with pytest.raises(
        ValueError, match=r"text\.txt, line 2: a carriage return stands between two"
    ):
        list(read_sentences([tmp_path / "text.txt"]))


def test_a_dataset_in_another_order_holds_the_same_and_repeats_it_from_its_seed(tmp_path):
    names = [f"{i}.txt" for i in range(8)]
    for name in names:
        (tmp_path / name).write_text(name)
    files = text_files([tmp_path / "*.txt"])

    dataset = sentence_dataset(files, seed=3)
    first, second = decoded(dataset), decoded(dataset)

    assert first == decoded(sentence_dataset(files, seed=3))
    assert first != second
    assert sorted(first) == sorted(second) == [[name] for name in names]


def test_a_corpus_is_counted(files):
    vocabulary = Vocabulary.build(["the cat sat on"])

    count = count_corpus(files[:1], vocabulary)

    assert count == CorpusCount(sentences=5, tokens=10, unknown=4)
    assert count.targets == 15


def test_patterns_name_files_once_and_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.dat", "sub/d.txt", "odd[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()

    def names(*patterns):
        return [
            os.path.relpath(file, tmp_path)
            for file in text_files([tmp_path / pattern for pattern in patterns])
        ]

    assert names("*.txt") == ["a.txt", "b.txt", "odd[1].txt"]
    assert names("b.txt", "*.txt") == ["b.txt", "a.txt", "odd[1].txt"]
    assert names("**/d.txt", "c.dat") == [os.path.join("sub", "d.txt"), "c.dat"]
    assert names("odd[1].txt") == ["odd[1].txt"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("none.txt", r"There is no text file .*none\.txt"), ("*.none", r"No text file matches .*\*")],
)
def test_a_pattern_without_a_file_is_named(tmp_path, pattern, message):
    with pytest.raises(FileNotFoundError, match=message):
        text_files([tmp_path / pattern])


def test_a_folder_is_no_text_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        text_files([tmp_path])


@pytest.mark.parametrize("damage", ["cut short", "changed"])
def test_a_damaged_packed_file_is_named(files, damage):
    content = files[1].read_bytes()
    damaged = content[:-12] if damage == "cut short" else content[:12] + b"\xff" * 40
    files[1].write_bytes(damaged)

    with pytest.raises(ValueError, match=r"Cannot unpack .*packed\.txt\.gz"):
        list(read_sentences(files))


def test_a_corpus_without_tokens_is_an_error(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")

    with pytest.raises(ValueError, match=r"There is no token in .*empty\.txt"):
        count_corpus([tmp_path / "empty.txt"], Vocabulary.build(["a"]))
