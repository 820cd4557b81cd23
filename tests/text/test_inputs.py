"""Functions that check inputs. Tests of the inputs of a biLM are in tests/models."""

import numpy as np
import pandas
import pyarrow
import pytest
import tensorflow as tf

from elmo_tf.text.inputs import checked_inputs, token_lists

SENTENCES = [["The cat sat"], ["Fine"], ["두\u3000단어"]]


@pytest.mark.parametrize(
    "column",
    [
        np.array(SENTENCES),
        np.array(SENTENCES, object),
        np.array([[sentence.encode()] for [sentence] in SENTENCES]),
        tf.constant(SENTENCES),
        tf.constant([["a"], ["\u3000"]]),
        np.array([["The cat sat", "It sat"], ["A dog", "Fine"]]),
    ],
    ids=range(6),
)
def test_a_column_of_sentences_is_refused(column):
    message = r"Pass sentences as strings of shape \(batch,\).*whitespace in row: \[[01]\]"
    with pytest.raises(ValueError, match=message):
        token_lists(column)
    with pytest.raises(ValueError, match=message):
        checked_inputs(column, None)


@pytest.mark.parametrize(
    "inputs",
    [
        np.array([["a"], ["cat"]]),
        tf.constant([["a"], [""]]),
        tf.constant([["a b", "c"]]),
        tf.constant(["a b", "c"]),
        [["10 000"]],  # an explicit list of tokens
        tf.ragged.constant([["10 000"]]),
        np.zeros((0, 1), str),
    ],
    ids=str,
)
def test_tokens_are_not_mistaken_for_a_column_of_sentences(inputs):
    checked_inputs(inputs, None)
    checked_inputs(np.array([["10 000"]]), [1])  # lengths belong to tokens


def test_a_graph_checks_a_batch_whose_number_of_tokens_is_unknown():
    spec = tf.TensorSpec((None, None), tf.string)
    in_graph = tf.function(lambda x: checked_inputs(x, None)[0], input_signature=[spec])

    assert in_graph(tf.constant([["10 000", "euros"]])).shape == (1, 2)
    for sentences in ([["a good film"]], [["a good film", "so so"], ["a bad one", ""]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Pass sentences as strings of"):
            in_graph(tf.constant(sentences))


@pytest.mark.parametrize("lengths", [[2, 2, 2], []])
def test_a_graph_refuses_lengths_with_a_different_number_of_rows(lengths):
    specs = tf.TensorSpec((None, None), tf.string), tf.TensorSpec((None,), tf.int32)
    in_graph = tf.function(lambda *inputs: checked_inputs(*inputs)[1], input_signature=specs)

    assert in_graph(tf.constant([["a", "b"]]), tf.constant([2])).numpy().tolist() == [2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="one number per row"):
        in_graph(tf.constant([["a", "b"]]), tf.constant(lengths, tf.int32))


TEXTS = ["the cat", "", "두 단어"]
TOKEN_LISTS = [sentence.split() for sentence in TEXTS]
RAGGED_TOKENS = tf.ragged.constant(TOKEN_LISTS)


@pytest.mark.parametrize(
    "sentences",
    [
        TEXTS,
        TOKEN_LISTS,
        iter(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array([[*tokens, *[""] * (3 - len(tokens))] for tokens in TOKEN_LISTS]),
        pandas.Series(TEXTS),
        pandas.Series(TOKEN_LISTS),
        pyarrow.array(TEXTS),
        pyarrow.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pandas.DataFrame({"text": TEXTS}),
        pyarrow.table({"text": TEXTS}),
        tf.constant(TEXTS),
        RAGGED_TOKENS.to_tensor("", shape=(3, 4)),
        RAGGED_TOKENS,
        tf.data.Dataset.from_tensor_slices(TEXTS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_collections_of_sentences_have_the_same_tokens(sentences):
    assert list(token_lists(sentences)) == TOKEN_LISTS


def test_an_empty_token_before_a_real_one_is_refused():
    with pytest.raises(ValueError, match=r"precedes a real token in sentence 1: \['', 'b'\]"):
        list(token_lists([["a"], ["", "b"]]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a b", r"`texts` must be several sentences, not one string: 'a b'"),
        (tf.constant("a b"), r"not one string: b'a b'"),
        ({"a"}, r"`texts` must be sentences.*Received: {'a'} \(of type set\)"),
        (None, r"`texts` must be sentences: a list of strings.*Received: None \(of type NoneType"),
        ({"text": ["a"]}, r"not a table. Pass one column, for example df.*Received: dict"),
        (pandas.DataFrame({"a": [], "c": []}), r"not a table.*Frame with the columns \['a', 'c'\]"),
        (pyarrow.table({"a": ["b"], "c": [1]}), r"not a table.*Table with the columns \['a'"),
        (["a", None], r"Sentence 1 is None, of type NoneType. Replace missing values"),
        (pandas.Series(["a", float("nan")]), r"Sentence 1 is nan"),
        (np.array([0.5]), r"Sentence 0 is 0.5"),
        (["a", ["b", 7]], r"Token 1 of sentence 1 is 7, of type int"),
        (tf.data.Dataset.from_tensor_slices(["a"]).batch(1), r"see `unbatch\(\)`"),
        (tf.data.Dataset.range(2), r"one string per element.*int64"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        token_lists(value, "texts")
