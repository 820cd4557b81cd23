import gzip

import numpy as np
import pytest

from elmo_tf.tasks.word_vectors import WordVectors, read_word_vectors

LINES = ["the 0.5 -1 2e-1", "cat 1 2 3", ". . . 4 5 6", "größe 0 0 1"]


@pytest.fixture
def written(file):
    """Writes lines into a file."""
    return lambda *lines, end="\n": file("".join(line + end for line in lines), "vectors.txt")


def test_glove_begins_at_once_and_tokens_may_hold_spaces(written):
    vectors = read_word_vectors(written(*LINES))

    assert vectors.tokens == ("the", "cat", ". . .", "größe")
    assert vectors.vectors.dtype == np.float32
    np.testing.assert_allclose(vectors["the"], [0.5, -1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(vectors[". . ."], [4, 5, 6])
    assert vectors.dim == 3


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_word2vec_has_a_binary_format(tmp_path, end):
    numbers = np.float32([[0.5, -1, 2], [32, 0, 1], [1e-30, 5, 6], [7, 8, 9]])
    tokens = ["the", "größe", "x", "the"]
    rows = b"".join(
        token.encode() + b" " + row.tobytes() + end
        for token, row in zip(tokens, numbers, strict=True)
    )
    path, packed = tmp_path / "vectors.bin", tmp_path / "vectors.BIN.GZ"
    path.write_bytes(b"4 3\n" + rows)
    packed.write_bytes(gzip.compress(path.read_bytes()))

    for file in (path, packed):
        vectors = read_word_vectors(file)
        assert vectors.tokens == ("the", "größe", "x")
        np.testing.assert_array_equal(vectors.vectors, numbers[:3])
    path.write_bytes(b"4 3\n" + rows[:-5])
    with pytest.raises(ValueError, match=r"vectors\.bin has 3 vectors, but its header says 4"):
        read_word_vectors(path)
    for wrong in (b"", b"\xba\x16\x4f\x2f 3", b"3 0\n"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="is not in word2vec's binary format"):
            read_word_vectors(path)


def test_word2vec_begins_with_a_header_and_ends_lines_in_spaces(written):
    plain = read_word_vectors(written(*LINES))
    word2vec = read_word_vectors(written("4 3", *LINES, end=" \r\n"))

    assert word2vec.tokens == plain.tokens
    np.testing.assert_array_equal(word2vec.vectors, plain.vectors)


def test_a_token_that_comes_again_keeps_its_first_vector_and_that_is_told(written, caplog):
    path = written("a 1 2", "b 3 4", "a 5 6", "b 7 8", "c 9 0")

    vectors = read_word_vectors(path)

    assert vectors.tokens == ("a", "b", "c")
    np.testing.assert_array_equal(vectors.vectors, [[1, 2], [3, 4], [9, 0]])
    assert "skipped 2 vectors whose tokens occur before" in caplog.text
    assert "line 3, 'a'" in caplog.text


def test_vectors_have_one_row_per_token():
    for shape in ((2, 3), (1,)):
        with pytest.raises(ValueError, match=r"one row per token.*1 tokens and an array"):
            WordVectors(["cat"], np.ones(shape))
