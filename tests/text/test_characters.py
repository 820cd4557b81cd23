import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.characters import BYTES, char_ids
from reference import char_ids as reference

TOKENS = {
    "48 bytes, which just fit": ("x" * 48, b"x" * 48),
    "a character cut in half": ("a" * 47 + "é", b"a" * 47 + b"\xc3\xa9"),
    "an emoji and Korean": ("😀한", b"\xf0\x9f\x98\x80\xed\x95\x9c"),
    "invalid UTF-8": (b"\xff\xc3(", b"\xff\xc3("),
    "an invalid byte as Python reads it": ("caf\udce9", b"caf\xe9"),
    "surrogates of both kinds": ("\udcff\ud83dß", b"\xff\xed\xa0\xbd\xc3\x9f"),
    "a NUL byte": ("a\0b", b"a\0b"),
    "nothing": ("", b""),
    "a boundary's name": ("<S>", b"<S>"),
}


@pytest.mark.parametrize(("token", "token_bytes"), TOKENS.values(), ids=TOKENS.keys())
def test_a_token_is_encoded_as_bytes_between_word_boundaries(token, token_bytes):
    ids = char_ids(token)

    assert ids.dtype == tf.int32
    np.testing.assert_array_equal(ids, reference.char_ids(token_bytes, 50))


def test_boundary_rows_match_the_reference():
    np.testing.assert_array_equal(BYTES.boundary_ids(11), reference.boundary_char_ids(11))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_char_ids_add_one_axis_to_any_shape(shape):
    rng = np.random.default_rng(0)
    tokens = rng.choice(["a", "", "longer", "ß"], shape).tolist() if shape else "ß"

    ids = char_ids(tokens, 6)

    assert ids.shape == (*shape, 6)
    for same in (np.array(tokens), np.array(tokens, object), tf.constant(tokens, "string", shape)):
        np.testing.assert_array_equal(char_ids(same, 6), ids)
    for index in np.ndindex(shape):
        token = np.array(tokens)[index].item().encode()
        np.testing.assert_array_equal(ids[index], reference.char_ids(token, 6))


def test_lists_of_different_lengths_give_a_ragged_tensor():
    tokens = [["a"], [], ["bb", ""]]
    ragged = tf.ragged.constant(tokens)
    in_graph = tf.function(char_ids, input_signature=[tf.type_spec_from_value(ragged)])

    for ids in (char_ids(tokens), char_ids(ragged), in_graph(ragged)):
        assert ids.row_lengths().numpy().tolist() == [1, 0, 2]
        np.testing.assert_array_equal(ids.flat_values, char_ids(["a", "bb", ""]))


@pytest.mark.parametrize("tokens", ["a", ["a", ""], [["a", "ß" * 40], ["\0", "한국어"]]])
def test_graph_and_eager_mode_give_the_same_char_ids(tokens):
    of_any_rank = tf.function(char_ids, input_signature=[tf.TensorSpec(None, tf.string)])

    np.testing.assert_array_equal(of_any_rank(tf.constant(tokens)), char_ids(tokens))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (7, "nested lists of strings are required. Received: 7"),
        (["a", 7], "Received: 7"),
        (["a", None], "Received: None"),
        (tf.constant([1, 2]), "Received: a tensor of int32"),
        (np.array([1.5]), r"Received: 1\.5"),
    ],
)
def test_inputs_that_are_not_strings_are_refused(tokens, message):
    with pytest.raises(TypeError, match=message):
        char_ids(tokens)


def test_mixed_depths_and_a_width_below_3_are_refused():
    with pytest.raises(ValueError, match="nest"):
        char_ids(["a", ["b"]])
    with pytest.raises(ValueError, match=r"`max_chars` must be at least 3.*Received: 2"):
        char_ids("a", 2)
