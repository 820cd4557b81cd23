import numpy as np
import tensorflow as tf

from elmo_tf import BiLMConfig, CharCNNConfig, LSTMConfig, Vocabulary, char_ids
from elmo_tf.models.token_rows import add_boundaries, distinct_rows, with_boundary_rows

LSTM = LSTMConfig(dim=7, projection_dim=4)
SPELLING = BiLMConfig(CharCNNConfig(((1, 2), (3, 4)), embedding_dim=5, max_chars=14), LSTM)
LOOKUP = BiLMConfig(None, LSTM, num_tokens=5)


def test_each_string_of_a_batch_comes_once():
    tokens = tf.constant([["the", "cat", "the"], ["cat", "", ""]])

    rows, index, lengths = distinct_rows(tokens, None, SPELLING, None)

    np.testing.assert_array_equal(rows, char_ids(["the", "cat", ""], 14))
    assert index.numpy().tolist() == [[3, 4, 3], [4, 5, 5]]
    assert lengths.numpy().tolist() == [3, 1]


def test_char_ids_are_widened_with_padding():
    ids = char_ids([["the", "a"], ["cat", ""]], 6)

    rows, index, lengths = distinct_rows(tf.where(ids == 261, 0, ids), None, SPELLING, None)

    np.testing.assert_array_equal(rows[:3], char_ids(["the", "a", "cat"], 14))
    assert index.numpy().tolist() == [[3, 4], [5, 6]]
    assert lengths.numpy().tolist() == [2, 1]


def test_token_ids_stay_and_strings_are_looked_up():
    vocabulary = Vocabulary.build(["a a b"])

    of_ids = distinct_rows(tf.constant([[4, 5, 3]]), None, LOOKUP, None)
    of_strings = distinct_rows(tf.constant([["a", "b", "z"]]), None, LOOKUP, vocabulary)

    for one, other in zip(of_ids, of_strings, strict=True):
        np.testing.assert_array_equal(one, other)
    assert with_boundary_rows(of_ids[0], LOOKUP).numpy().tolist() == [1, 2, 4, 5, 3]


def test_the_boundaries_are_spelt_before_all_rows():
    rows = with_boundary_rows(char_ids(["a"], 14), SPELLING)

    # Three characters and a window of padding of the widest filter, rounded up.
    expected = [[259, 257, 260], [259, 258, 260], [259, 98, 260]]
    assert rows.shape == (3, 8)
    np.testing.assert_array_equal(rows[:, :3], expected)
    assert (rows[:, 3:].numpy() == 261).all()


def test_boundaries_stand_around_each_sentence():
    index, mask = add_boundaries(
        tf.constant([[3, 4, 5], [6, 7, 7], [7, 7, 7]]), tf.constant([3, 1, 0])
    )

    assert index.numpy().tolist() == [[1, 3, 4, 5, 2], [1, 6, 2, 0, 0], [1, 2, 0, 0, 0]]
    np.testing.assert_array_equal(mask, index.numpy() != 0)
