"""Valid and invalid inputs of a biLM."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLM, BiLMConfig, CharCNNConfig, Elmo, LSTMConfig, char_ids
from nested_arrays import assert_close

SENTENCES = ["the cat sat", "a", "한국어 😀"]
TOKENS = [sentence.split() for sentence in SENTENCES]
PADDED = [["the", "cat", "sat"], ["a", "", ""], ["한국어", "😀", ""]]
MAX_CHARS = 14
KINDS = {
    "an array of sentences": np.array(SENTENCES),
    "bytes": [sentence.encode() for sentence in SENTENCES],
    "a tensor of sentences": tf.constant(SENTENCES),
    "sentences with odd white space": ["\u3000the cat  sat\n", " a", "한국어\u00a0😀"],
    "lists of tokens": TOKENS,
    "tuples of encoded tokens": [tuple(token.encode() for token in row) for row in TOKENS],
    "a ragged tensor": tf.ragged.constant(TOKENS),
    "a padded tensor": tf.constant(PADDED),
    "a padded array": np.array(PADDED),
    "char ids": char_ids(PADDED, MAX_CHARS),
    "char ids of 64 bits": tf.cast(char_ids(PADDED, MAX_CHARS), tf.int64),
    "char ids as lists": char_ids(PADDED, MAX_CHARS).numpy().tolist(),
    "ragged char ids": char_ids(TOKENS, MAX_CHARS),
}


@pytest.fixture(scope="module")
def outputs(bilm):
    return bilm(SENTENCES)


@pytest.mark.parametrize("inputs", KINDS.values(), ids=KINDS.keys())
def test_all_kinds_of_input_agree(bilm, outputs, inputs):
    assert_close(bilm(inputs), outputs, atol=1e-6)


@pytest.mark.parametrize("kind", ["tokens", "char ids", "sentences"])
def test_tokens_after_the_lengths_are_ignored(bilm, outputs, kind):
    rows = [["the", "cat", "sat"], ["a", "junk", "more"], ["한국어", "😀", "junk"]]
    inputs = {
        "tokens": rows,
        "char ids": char_ids(rows, MAX_CHARS),
        "sentences": [" ".join(row) for row in rows],
    }[kind]

    for lengths in ([3, 1, 2], np.array([3, 1, 2], np.int64), tf.constant([3, 1, 2])):
        assert_close(bilm(inputs, lengths=lengths), outputs, atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "shape"),
    [
        ([], (0, 1)),
        (tf.zeros((0,), tf.string), (0, 1)),
        (tf.zeros((0, 3, MAX_CHARS), tf.int32), (0, 3)),
        (["", " \t"], (2, 1)),
        ([[], []], (2, 1)),
        (tf.zeros((2, 0), tf.string), (2, 1)),
        (tf.zeros((2, 0, MAX_CHARS), tf.int32), (2, 1)),
        (tf.zeros((2, 3, MAX_CHARS), tf.int32), (2, 3)),
    ],
    ids=str,
)
def test_batches_without_tokens_have_a_masked_token(bilm, inputs, shape):
    outputs = bilm(inputs)

    assert outputs["layers"].shape == (shape[0], 3, shape[1], 12)
    assert outputs["mask"].shape == shape
    assert not outputs["mask"].numpy().any()
    assert not outputs["layers"].numpy().any()


@pytest.mark.parametrize("floatx", ["float16", "float64"])
def test_lengths_work_with_any_default_dtype_of_keras(floatx):
    keras.config.set_floatx(floatx)  # `ops.arange` returns integers of the same size
    try:
        bilm = BiLM(BiLMConfig.preset("tiny"))
        assert bilm([["a", "b"], ["c", "d"]], lengths=[2, 1])["mask"].numpy().tolist()[1] == [1, 0]
        assert Elmo(bilm)(tf.constant(["a b", ""])).shape[:2] == (2, 2)
    finally:
        keras.config.set_floatx("float32")


def test_rows_of_char_ids_may_be_narrower_than_those_of_the_model_and_than_its_filters():
    char_cnn = CharCNNConfig(((2, 3), (11, 5)), embedding_dim=5, num_highway=1, max_chars=MAX_CHARS)
    bilm = BiLM(BiLMConfig(char_cnn, LSTMConfig(dim=7, projection_dim=4)))
    rng = np.random.default_rng(0)
    for weight in bilm.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    in_graph = tf.function(bilm, input_signature=[tf.TensorSpec((None, None, None), tf.int32)])
    tokens = [["the", "a"], ["cat", ""]]
    expected = bilm(tokens)

    for num_chars in (5, 9, MAX_CHARS):
        ids = char_ids(tokens, num_chars)
        padded_with_zeros = tf.where(ids == 261, 0, ids)
        for outputs in (bilm(ids), in_graph(ids), bilm(padded_with_zeros)):
            assert_close(outputs, expected, atol=1e-6)


def test_strings_are_mapped_to_token_ids_by_the_vocabulary(word_bilm, keras_round_trip):
    of_ids = word_bilm(np.array([[4, 5, 3], [5, 0, 0]]))

    assert_close(word_bilm(["a b unknown", "b"]), of_ids)
    table = word_bilm.token_encoder.embedding.numpy()
    vectors = of_ids["layers"][0, 0]
    np.testing.assert_allclose(vectors, np.tile(table[[3, 4, 2]], 2), atol=1e-6)
    np.testing.assert_allclose(word_bilm.boundary_embeddings(), table[:2], atol=1e-6)
    vectors = word_bilm.token_embeddings([["b", ""]])[0]
    np.testing.assert_allclose(vectors, [table[4], np.zeros(4)], atol=1e-6)
    loaded = keras_round_trip(word_bilm)
    np.testing.assert_array_equal(loaded(["a b c"])["layers"], word_bilm(["a b c"])["layers"])
    assert loaded.vocabulary == word_bilm.vocabulary


def test_token_ids_need_no_vocabulary_but_strings_do():
    config = BiLMConfig(None, LSTMConfig(dim=7, projection_dim=4), num_tokens=5)
    bilm = BiLM(config)

    assert bilm([[4, 5], [1, 0]])["mask"].numpy().tolist() == [[True, True], [True, False]]
    with pytest.raises(ValueError, match=r"needs a vocabulary to read strings"):
        bilm(["a b"])


IDS = np.zeros((2, 3, MAX_CHARS), int)


@pytest.mark.parametrize(
    ("inputs", "lengths", "error", "message"),
    [
        ("one sentence", None, TypeError, r"several sentences, not one string: 'one sentence'"),
        (None, None, TypeError, r"reads sentences \(str\), lists of tokens, or .* Received: None"),
        (np.zeros((2, 3, 4)), None, TypeError, r"Received: a tensor of float64"),
        ([["a"], 7], None, TypeError, r"must be .* tokens \(str\). Sentence 1 is 7, of type int.$"),
        (tf.constant("a"), None, ValueError, r"shape \(batch,\) or \(batch, token\).*shape \(\)"),
        (IDS[0], None, ValueError, r"char ids of shape \(batch, token, char\). Received:.*3, 14"),
        ([[[1, 2]], [[1, 2, 3]]], None, ValueError, r"of rows of different lengths must be padded"),
        ([["a"], ["", "b"]], None, ValueError, r"empty token .* precedes a real token.*row: \[1\]"),
        (IDS + 262, None, ValueError, r"Ids must be between 0 and 261\. Received"),
        ([["a", "b"]], [3], ValueError, r"must be between 0 and the number of token positions"),
        ([["a", "b"]], [1, 1], ValueError, r"must have shape \(batch,\) = \(1,\).*\(2,\)"),
        ([["a", ""]], [2], ValueError, r"An empty token .* within `lengths`, in row: \[0\]"),
        (IDS, [0, 1], ValueError, r"An empty token .* in row: \[1\]"),
        *(
            ([["a", "b"]], lengths, TypeError, r"`lengths` must be integers. .*(float32|bool)")
            for lengths in ([1.9], [True], keras.Input((), dtype="float32"))
        ),
    ],
    ids=str,
)
def test_invalid_inputs_and_lengths_are_refused(bilm, inputs, lengths, error, message):
    with pytest.raises(error, match=message):
        bilm(inputs, lengths=lengths)


def test_a_float_keras_input_is_refused(bilm):
    for model in (bilm, Elmo(bilm)):
        with pytest.raises(ValueError, match=r'float32. Use keras.Input\(\(\), dtype="string"'):
            model(keras.Input((None,)))


def test_token_ids_must_fit_the_table(word_bilm):
    with pytest.raises(ValueError, match=r"Ids must be between 0 and 5\. Received"):
        word_bilm(np.array([[6]]))
    with pytest.raises(ValueError, match=r"without a character CNN reads strings, or token ids"):
        word_bilm(np.ones((1, 1, MAX_CHARS), int))


def test_rows_of_char_ids_must_have_the_length_of_the_model(bilm):
    of_ids = tf.function(bilm, input_signature=[tf.TensorSpec((None, None, None), tf.int32)])

    for num_chars in (MAX_CHARS + 1, 2):
        ids = tf.ones((1, 2, num_chars), tf.int32)
        with pytest.raises(ValueError, match=r"have 3 to 14 characters per token\. Received: ids "):
            bilm(ids)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must have 3 to 14 characters"):
            of_ids(ids)
