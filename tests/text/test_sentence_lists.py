import numpy as np
import pandas
import pyarrow
import pytest
import tensorflow as tf

from elmo_tf.text.sentence_lists import sentence_items, token_bytes

SENTENCES = ["the cat", "", "두 단어"]
TOKENS = [sentence.split() for sentence in SENTENCES]
RAGGED = tf.ragged.constant(TOKENS)


@pytest.mark.parametrize(
    "sentences",
    [
        SENTENCES,
        TOKENS,
        iter(SENTENCES),
        np.array(SENTENCES),
        np.array(SENTENCES, object),
        np.array([[*tokens, *[""] * (3 - len(tokens))] for tokens in TOKENS]),
        pandas.Series(SENTENCES),
        pandas.Series(TOKENS),
        pyarrow.array(SENTENCES),
        pyarrow.chunked_array([SENTENCES[:1], SENTENCES[1:]]),
        tf.constant(SENTENCES),
        RAGGED.to_tensor("", shape=(3, 4)),
        RAGGED,
        tf.data.Dataset.from_tensor_slices(SENTENCES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_collections_of_sentences_have_the_same_tokens(sentences):
    found = [token_bytes(number, item) for number, item in enumerate(sentence_items(sentences))]

    assert found == [[token.encode() for token in tokens] for tokens in TOKENS]


def test_an_endless_stream_is_not_read_ahead():
    stream = iter(lambda: "a b", None)

    assert next(iter(sentence_items(stream))) == "a b"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a b", r"`texts` must be several sentences, not one string: 'a b'"),
        (None, r"`texts` must be sentences: a list of strings.*Received: None \(of type NoneType"),
        (7, r"`texts` must be sentences.*Received: 7 \(of type int\)"),
        ({"text": ["a"]}, r"not a table. Pass one column, for example df.*Received: dict"),
        (pandas.DataFrame({"text": ["a"]}), r"not a table.*Received: DataFrame"),
        (pyarrow.table({"text": ["a"]}), r"not a table.*Received: Table"),
        (tf.data.Dataset.from_tensor_slices(["a"]).batch(1), r"call `unbatch\(\)`"),
        (tf.data.Dataset.range(2), r"one string per element.*int64"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(TypeError, match=message):
        sentence_items(value, "texts")


def test_a_column_of_sentences_is_refused():
    with pytest.raises(ValueError, match=r"Pass sentences as strings of shape \(batch,\)"):
        sentence_items(np.array([["the cat"], ["sat"]]))
