import collections
import gzip
import os
import sys

import pytest
import tensorflow as tf

from elmo_tf.text import corpus
from elmo_tf.text.corpus import (
    MAX_SENTENCE_TOKENS,
    corpus_size,
    count_files,
    line_dataset,
    lines_read_once,
    read_sentences,
    sentences_of,
)
from elmo_tf.text.inputs import split_tokens
from elmo_tf.text.reading import decode, encode, text_files
from elmo_tf.text.vocabulary import Vocabulary


def tokens_of(lines):
    """The tokens of the sentences of a dataset of lines, as windows split them."""
    texts, sizes = zip(*sentences_of(list(lines.as_numpy_iterator())), strict=True)
    sentences = tf.strings.split(list(map(encode, texts))).to_list()
    assert [len(tokens) + 1 for tokens in sentences] == list(sizes)
    return [list(map(decode, tokens)) for tokens in sentences]


def test_shuffled_lines_of_all_files_are_mixed_and_reproducible_by_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "SHUFFLE_LINES", 10)
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(f"source{number}\n" * 1000)
    files = text_files([tmp_path / "*.txt"])
    dataset = line_dataset(files, seed=3)

    first, second, again = (
        list(lines.as_numpy_iterator()) for lines in (dataset, dataset, line_dataset(files, seed=3))
    )

    assert first == again != second
    for lines, least in ((first, 1000), (second, 1000), (first[:400], 41)):
        counts = collections.Counter(lines)
        assert len(counts) == 8
        assert min(counts.values()) >= least


MARK = b"\xef\xbb\xbf"  # the byte order mark in UTF-8
LONG = MAX_SENTENCE_TOKENS
UNUSUAL_TEXTS = {
    "nothing": (b"", []),
    "mark in front": (MARK + b"a b\n", [[b"a", b"b"]]),
    "mark behind a carriage return": (b"\r" + MARK + b"\ra\n", [[b"a"]]),
    "marks elsewhere": (b"a " + MARK + b"\n" + MARK + b"b\n", [[b"a", MARK], [MARK + b"b"]]),
    "carriage returns at the end": (b"a b\r\nc \r\r\n\r\n", [[b"a", b"b"], [b"c"]]),
    "carriage returns beside white space": (b"c \rd\r\r\n\re\n", [[b"c", b"d"], [b"e"]]),
    "NUL": (b"a\0b \0\nc\0\n", [[b"a\0b", b"\0"], [b"c\0"]]),
    "not FASTA": (b" > I\n> he\n", [[b">", b"I"], [b">", b"he"]]),
    "UTF-16": ("\ufeffa b\n".encode("utf-16-le"), [[b"\xff\xfea\0", b"\0b\0"], [b"\0"]]),
    "half, separator": (b"a\xf0\x90\xe3\x80\x80b\xe3\xc2\x85c\n", [[b"a\xf0\x90", b"b\xe3", b"c"]]),
    "beyond Unicode": (b"a\xf4\x90\x80\x80b\n", [[b"a\xf4\x90\x80\x80b"]]),
    "two too long, the first of them without a rest": (
        b"a " * 2 * LONG + b"\n\n" + b"b " * (2 * LONG + 3) + b"\nc",
        [[b"a"] * LONG] * 2 + [[b"b"] * LONG] * 2 + [[b"b"] * 3, [b"c"]],
    ),
}


@pytest.mark.parametrize(("content", "sentences"), UNUSUAL_TEXTS.values(), ids=UNUSUAL_TEXTS)
def test_all_readers_and_the_counts_agree_for_unusual_text(
    tmp_path, monkeypatch, content, sentences
):
    monkeypatch.setattr(corpus, "SHUFFLE_LINES", 1)
    file, packed = tmp_path / "text.txt", tmp_path / "text.txt.gz"
    file.write_bytes(content)
    packed.write_bytes(gzip.compress(content))

    assert [[*map(os.fsencode, tokens)] for tokens in read_sentences([file])] == sentences
    if sentences:
        datasets = line_dataset([file], 0), line_dataset([packed], 0), lines_read_once([packed])
        for lines in datasets:
            assert [[*map(encode, tokens)] for tokens in tokens_of(lines)] == sentences
    file.write_bytes(content + b"\nx y")
    expected = list(read_sentences([file]))
    count = count_files([file])
    assert count.sentences == len(expected)
    assert count.types == collections.Counter(token for tokens in expected for token in tokens)
    assert count.tokens == count.types.total()
    assert count.longest == max(map(len, expected))


def test_a_corpus_is_counted(tmp_path):
    vocabulary = Vocabulary.build(["the cat sat on"])
    text = "the cat\n\n  \n한국어\u3000sat\u00a0on \nthe\u0085mat\r\n\udcff the\nlast"
    (tmp_path / "text.txt").write_bytes(encode(text))

    count = count_files([tmp_path / "text.txt"])

    # The targets: 5 boundaries, 4 unknown, 3 `the`, and 3 others.
    numbers = {"sentences": 5, "tokens": 10, "types": 8, "unknown": 4, "longest": 3}
    assert corpus_size(count, vocabulary) == {**numbers, "unigram_perplexity": 4.9}
    assert +count.lines == {"invalid": 1, "empty": 2}
    assert count.targets == 15


def test_patterns_match_files_in_order_and_a_file_as_often_as_it_is_named(tmp_path):
    (tmp_path / "folder.txt").mkdir()
    for name in ("b.txt", "a.txt", "c.dat", "odd[1].txt", "folder.txt/d.txt", ".hidden.txt"):
        (tmp_path / name).touch()

    def names(*patterns):
        files = text_files([tmp_path / pattern for pattern in patterns])
        return [os.path.relpath(file, tmp_path) for file in files]

    assert names("b.txt", "*.txt") == ["b.txt", "a.txt", "b.txt", "odd[1].txt"]
    nested = os.path.join("folder.txt", "d.txt")
    assert names("**/*", "odd[1].txt") == ["a.txt", "b.txt", "c.dat", nested, *["odd[1].txt"] * 2]
    assert names("**/**/d.txt") == [nested]  # once


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("none.txt", FileNotFoundError, r"There is no text file .*none\.txt"),
        ("*.none", FileNotFoundError, r"No text file matches .*\*"),
        ("pipe", ValueError, "pipe is not a regular file.* more than once"),
        ("empty.txt", ValueError, r"There is no token in .*empty\.txt"),
        # Python would read two tokens, and TensorFlow's reader one.
        ("mac.txt", ValueError, r"mac\.txt, line 2: a carriage return .* Or is the text UTF-16\?"),
    ],
)
def test_the_error_names_a_file_that_cannot_be_counted(tmp_path, name, error, message):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "mac.txt").write_bytes(b"a b\nc\rd\n")

    with pytest.raises(error, match=message):
        count_files(text_files([tmp_path / name]))


def test_tokens_are_split_and_counted_at_the_same_code_points_as_in_python():
    points = {*range(sys.maxunicode + 1)} - {*range(0xD800, 0xE000), ord("\n")}
    sentences = [f"a{chr(point)}b" for point in points]

    split = split_tokens(tf.constant(sentences)).row_lengths().numpy().tolist()
    counted = [size - 1 for _, size in sentences_of([sentence.encode() for sentence in sentences])]

    expected = [len(sentence.split()) for sentence in sentences]
    numbers = zip(points, split, counted, expected, strict=True)
    assert [hex(point) for point, *counts in numbers if len({*counts}) > 1] == []
