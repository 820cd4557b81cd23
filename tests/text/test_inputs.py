"""Functions that check inputs. Tests of the inputs of a biLM are in tests/models."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.inputs import checked_inputs, is_token, refuse_sentences_as_tokens, row_lengths


@pytest.mark.parametrize(
    "inputs",
    [
        tf.constant([["a", "b", ""], ["c", "", ""]]),
        tf.constant([[[0, 1], [7, 0], [0, 0]], [[3, 3], [0, 0], [0, 0]]]),
        tf.constant([[4, 1, 0], [2, 0, 0]]),
    ],
    ids=["strings", "char ids", "token ids"],
)
def test_empty_strings_and_zero_ids_are_not_tokens(inputs):
    np.testing.assert_array_equal(is_token(inputs), [[True, True, False], [True, False, False]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_lengths_of_any_integer_type_become_int32(dtype):
    _, lengths = checked_inputs([["a", "b"], ["c"]], np.array([2, 1], dtype))

    assert lengths.dtype == tf.int32
    assert lengths.numpy().tolist() == [2, 1]


SENTENCES = [["The cat sat"], ["Fine"], ["두\u3000단어"]]


@pytest.mark.parametrize(
    "column",
    [
        np.array(SENTENCES),
        np.array(SENTENCES, object),
        np.array([[sentence.encode()] for [sentence] in SENTENCES]),
        np.array([[None], *SENTENCES], object),
        tf.constant(SENTENCES),
        tf.constant([["a"], ["\u3000"]]),
        tf.constant([["The cat sat", "It sat"], ["A dog", "Fine"]]),
        np.array([["The cat sat", "It sat"], ["A dog", "Fine"]]),
    ],
    ids=[
        *("array", "objects", "bytes", "a missing value", "tensor", "white space alone"),
        *("two columns", "an array of two columns"),
    ],
)
def test_a_column_of_sentences_is_refused(column):
    message = r"Pass sentences as strings of shape \(batch,\).*whitespace in row: \[[01]\]"
    with pytest.raises(ValueError, match=message):
        refuse_sentences_as_tokens(column)
    with pytest.raises((ValueError, TypeError)):
        checked_inputs(column, None)


@pytest.mark.parametrize(
    "inputs",
    [
        np.array([["a"], ["cat"]]),
        tf.constant([["a"], [""]]),
        tf.constant([["a b", "c"]]),
        tf.constant(["a b", "c"]),
        np.array([[3], [4]]),
        [["10 000"]],  # an explicit list of tokens
        tf.ragged.constant([["10 000"]]),
        np.zeros((0, 1), str),
    ],
    ids=str,
)
def test_tokens_are_not_mistaken_for_a_column_of_sentences(inputs):
    assert refuse_sentences_as_tokens(inputs) is inputs


def test_a_column_with_lengths_is_accepted_as_tokens():
    checked_inputs(np.array([["10 000"]]), [1])


def test_a_graph_checks_a_batch_whose_number_of_tokens_is_unknown():
    spec = tf.TensorSpec((None, None), tf.string)
    in_graph = tf.function(lambda x: checked_inputs(x, None)[0], input_signature=[spec])

    assert in_graph(tf.constant([["10 000", "euros"]])).shape == (1, 2)
    for sentences in ([["a good film"]], [["a good film", "so so"], ["a bad one", ""]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Pass sentences as strings of"):
            in_graph(tf.constant(sentences))


@pytest.mark.parametrize("lengths", [[2, 2, 2], []])
def test_a_graph_refuses_lengths_with_a_different_number_of_rows(lengths):
    check = tf.function(
        lambda tokens, lengths: row_lengths(is_token(tokens), lengths),
        input_signature=[tf.TensorSpec((None, None), tf.string), tf.TensorSpec((None,), tf.int32)],
    )

    assert check(tf.constant([["a", "b"]]), tf.constant([2])).numpy().tolist() == [2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="one number per row"):
        check(tf.constant([["a", "b"]]), tf.constant(lengths, tf.int32))
