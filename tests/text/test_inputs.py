"""The door's own functions; what a biLM accepts and refuses is in tests/models."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.inputs import checked_inputs, is_token


@pytest.mark.parametrize(
    "inputs",
    [
        tf.constant([["a", "b", ""], ["c", "", ""]]),
        tf.constant([[[0, 1], [7, 0], [0, 0]], [[3, 3], [0, 0], [0, 0]]]),
        tf.constant([[4, 1, 0], [2, 0, 0]]),
    ],
    ids=["strings", "char ids", "token ids"],
)
def test_a_real_token_is_not_empty(inputs):
    np.testing.assert_array_equal(is_token(inputs), [[True, True, False], [True, False, False]])


def test_strings_may_have_any_shape():
    assert is_token(tf.constant("")).numpy() == np.array(False)
    assert is_token(tf.constant([[["a"]]])).shape == (1, 1, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_lengths_of_any_integer_type_become_int32(dtype):
    _, lengths = checked_inputs([["a", "b"], ["c"]], np.array([2, 1], dtype))

    assert lengths.dtype == tf.int32
    assert lengths.numpy().tolist() == [2, 1]
