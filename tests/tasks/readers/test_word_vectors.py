import numpy as np
import pytest

from elmo_tf.tasks.reading import read_word_vectors
from nested_arrays import assert_close

LINES = ["the 0.5 -1 2e-1", "cat 1 2 3", ". . . 4 5 6", "größe 0 0 1"]


@pytest.fixture
def written(file):
    """Writes lines into a file."""
    return lambda *lines, end="\n": file("".join(line + end for line in lines), "vectors.txt")


def test_glove_begins_at_once_and_tokens_may_hold_spaces(written):
    vectors = read_word_vectors(written(*LINES))

    assert [*vectors] == ["the", "cat", ". . .", "größe"]
    assert vectors["the"].dtype == np.float32
    np.testing.assert_allclose(vectors["the"], [0.5, -1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(vectors[". . ."], [4, 5, 6])


def test_word2vec_begins_with_a_header_and_ends_lines_in_spaces(written):
    plain = read_word_vectors(written(*LINES))
    word2vec = read_word_vectors(written("4 3", *LINES, end=" \r\n"))

    assert_close(word2vec, plain)


def test_a_repeated_token_keeps_its_first_vector(written):
    vectors = read_word_vectors(written("a 1 2", "b 3 4", "a 5 6", "c 9 0"))

    found = {token: vector.tolist() for token, vector in vectors.items()}
    assert found == {"a": [1, 2], "b": [3, 4], "c": [9, 0]}
