import numpy as np
import tensorflow as tf

from elmo_tf import CharCNNConfig, char_ids
from elmo_tf.models.token_ids import CharacterIds, distinct_ids

CHARACTER_IDS = CharacterIds(CharCNNConfig(((1, 2), (3, 4)), embedding_dim=5, max_chars=14))


def test_each_distinct_string_of_a_batch_has_one_row():
    tokens = tf.constant([["the", "cat", "the"], ["cat", "", ""]])

    rows, index, lengths = distinct_ids(tokens, None, CHARACTER_IDS)

    np.testing.assert_array_equal(rows, char_ids(["the", "cat", ""], 14))
    assert index.numpy().tolist() == [[3, 4, 3], [4, 5, 5]]
    assert lengths.numpy().tolist() == [3, 1]
