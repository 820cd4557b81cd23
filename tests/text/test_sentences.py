import sys

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.characters import string_tensor
from elmo_tf.text.corpus import sentences_of
from elmo_tf.text.inputs import split_tokens


def test_tokens_are_split_and_counted_at_the_same_code_points_as_in_python():
    characters = [
        chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF
    ]
    characters.remove("\n")
    sentences = [f"a{character}b" for character in characters]

    split = split_tokens(tf.constant(sentences)).row_lengths().numpy().tolist()
    counted = [size - 1 for _, size in sentences_of([sentence.encode() for sentence in sentences])]

    expected = [len(sentence.split()) for sentence in sentences]
    both = [{*numbers} for numbers in zip(split, counted, expected, strict=True)]
    assert [hex(ord(one)) for one, n in zip(characters, both, strict=True) if len(n) > 1] == []


@pytest.mark.parametrize(
    ("strings", "shape"),
    [
        ("a", ()),
        ([], (0,)),
        ([["a", "b", "c"], ["d", "e", "f"]], (2, 3)),
        ([[], []], (2, 0)),
        ([[["a"], ["b"], ["c"]]], (1, 3, 1)),
        ([[["a"], []], [["b", "c"]]], None),
        ([[["a"]], []], None),
    ],
)
def test_uniform_lists_give_a_dense_tensor_in_graph_and_eager_mode(strings, shape):
    in_graph, eager = tf.function(lambda: string_tensor(strings))(), string_tensor(strings)

    if shape is None:
        assert in_graph.to_list() == eager.to_list()
    else:
        assert isinstance(eager, tf.Tensor)
        assert eager.shape == shape
        np.testing.assert_array_equal(in_graph, eager)


def test_lists_that_mix_strings_and_lists_are_refused():
    with pytest.raises(ValueError, match=r"nest"):
        string_tensor(["a", ["b"]])
