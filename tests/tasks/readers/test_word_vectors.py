import numpy as np

from elmo_tf.tasks.reading import read_word_vectors
from nested_arrays import assert_close

LINES = ["the 0.5 -1 2e-1", "cat 1 2 3", ". . . 4 5 6", "größe 0 0 1"]


def test_glove_and_word2vec_are_read_and_tokens_may_hold_spaces(file):
    """The files of word2vec begin with a header, and their lines end in spaces."""
    vectors = read_word_vectors(file("\n".join([*LINES, ""])))

    assert [*vectors] == ["the", "cat", ". . .", "größe"]
    assert vectors["the"].dtype == np.float32
    np.testing.assert_allclose(vectors["the"], [0.5, -1, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(vectors[". . ."], [4, 5, 6])
    assert_close(read_word_vectors(file(" \r\n".join(["4 3", *LINES, ""]))), vectors)


def test_a_repeated_token_keeps_its_first_vector(file):
    vectors = read_word_vectors(file("a 1 2\nb 3 4\na 5 6\nc 9 0\n"))

    found = {token: vector.tolist() for token, vector in vectors.items()}
    assert found == {"a": [1, 2], "b": [3, 4], "c": [9, 0]}
