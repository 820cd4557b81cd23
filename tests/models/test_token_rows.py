import numpy as np
import tensorflow as tf

from elmo_tf import CharCNNConfig, Vocabulary, char_ids
from elmo_tf.models.token_rows import CharacterRows, TokenRows, add_boundaries, distinct_rows

SPELT = CharacterRows(CharCNNConfig(((1, 2), (3, 4)), embedding_dim=5, max_chars=14))


def test_each_string_of_a_batch_comes_once():
    tokens = tf.constant([["the", "cat", "the"], ["cat", "", ""]])

    rows, index, lengths = distinct_rows(tokens, None, SPELT)

    np.testing.assert_array_equal(rows, char_ids(["the", "cat", ""], 14))
    assert index.numpy().tolist() == [[3, 4, 3], [4, 5, 5]]
    assert lengths.numpy().tolist() == [3, 1]


def test_char_ids_are_widened_with_padding():
    ids = char_ids([["the", "a"], ["cat", ""]], 6)

    rows, index, lengths = distinct_rows(tf.where(ids == 261, 0, ids), None, SPELT)

    np.testing.assert_array_equal(rows[:3], char_ids(["the", "a", "cat"], 14))
    assert index.numpy().tolist() == [[3, 4], [5, 6]]
    assert lengths.numpy().tolist() == [2, 1]


def test_token_ids_stay_and_strings_are_looked_up():
    vocabulary = Vocabulary.build(["a a b"])

    rows = TokenRows(5, vocabulary)
    of_ids = distinct_rows(tf.constant([[4, 5, 3]]), None, rows)
    of_strings = distinct_rows(tf.constant([["a", "b", "z"]]), None, rows)

    for one, other in zip(of_ids, of_strings, strict=True):
        np.testing.assert_array_equal(one, other)
    assert rows.with_boundaries(of_ids[0]).numpy().tolist() == [1, 2, 4, 5, 3]


def test_the_boundaries_are_spelt_before_all_rows():
    rows = SPELT.with_boundaries(char_ids(["a"], 14))

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
