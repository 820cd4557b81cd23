import numpy as np
import tensorflow as tf

from elmo_tf import CharCNNConfig, char_ids
from elmo_tf.models.token_rows import CharacterRows, distinct_rows

CHARACTER_ROWS = CharacterRows(CharCNNConfig(((1, 2), (3, 4)), embedding_dim=5, max_chars=14))


def test_each_distinct_string_of_a_batch_has_one_row():
    tokens = tf.constant([["the", "cat", "the"], ["cat", "", ""]])

    rows, index, lengths = distinct_rows(tokens, None, CHARACTER_ROWS)

    np.testing.assert_array_equal(rows, char_ids(["the", "cat", ""], 14))
    assert index.numpy().tolist() == [[3, 4, 3], [4, 5, 5]]
    assert lengths.numpy().tolist() == [3, 1]


def test_the_boundaries_are_the_first_rows():
    rows = CHARACTER_ROWS.with_boundaries(char_ids(["a"], 14))

    # Three characters and a window of padding of the widest filter, rounded up.
    expected = [[259, 257, 260], [259, 258, 260], [259, 98, 260]]
    assert rows.shape == (3, 8)
    np.testing.assert_array_equal(rows[:, :3], expected)
    assert (rows[:, 3:].numpy() == 261).all()
