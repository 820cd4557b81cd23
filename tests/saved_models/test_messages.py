"""How sentences are split into requests, and arrays of answers joined and cut."""

import itertools

import numpy as np
import pytest
from tensorflow_serving.apis import model_pb2

from elmo_tf.saved_models.messages import (
    joined,
    outputs_of_tokens,
    predict_request,
    sentence_batches,
)
from serving_requests import infos


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ((2, 99), [2, 2, 1]),
        ((99, 99), [5]),
        ((99, 4), [2, 1, 2]),  # 2 × 2 tokens at most, padding included
        ((99, 1), [1, 1, 1, 1, 1]),
    ],
)
def test_requests_are_limited_in_sentences_and_tokens(limits, sizes):
    sentences = ["a bb", "c", "d e f", "g", "h i"]
    for kind in (sentences, [sentence.split() for sentence in sentences]):
        batches = list(sentence_batches(kind, *limits))
        assert [len(batch) for batch in batches] == sizes
        assert list(itertools.chain(*batches)) == kind
    assert list(sentence_batches([], *limits)) == [[]]


def test_an_empty_request_has_the_shapes_of_the_signature():
    request = predict_request(model_pb2.ModelSpec(), [], signature="tokens")
    shapes = {
        name: [dim.size for dim in proto.tensor_shape.dim] for name, proto in request.inputs.items()
    }
    assert shapes == {"tokens": [0, 1], "sequence_len": [0]}


def test_vectors_and_tokens_are_outputs_of_tokens():
    found = outputs_of_tokens(
        infos(
            elmo=("float32", [None, None, 4]),
            default=("float32", [None, 4]),
            tokens=("string", [None, None]),
            odd=("float32", None),
            chars=("int32", [None, None]),
            pairs=("float32", [None, None, None]),
            sequence_len=("int32", [None]),
        )
    )
    assert found == {"elmo", "tokens"}


def answer(lengths, width):
    """An answer whose padding is 9 or `?`."""
    mask = np.arange(width) < np.array(lengths)[:, None]
    tokens = np.where(mask, b"t", b"?").astype(object)
    elmo = np.where(mask[..., None], np.arange(4.0, dtype=np.float32), 9)
    return {"elmo": elmo, "tokens": tokens, "sequence_len": np.array(lengths, np.int32)}


def test_answers_are_padded_to_the_longest_sentence_of_all():
    answers = [answer([1, 2], 6), answer([3], 3), answer([0], 0)]
    whole = joined(answers, ["elmo", "tokens"], {"elmo", "tokens"})
    assert list(whole) == ["elmo", "tokens"]
    assert whole["elmo"].shape == (4, 3, 4)
    assert whole["elmo"].dtype == np.float32
    np.testing.assert_array_equal(whole["elmo"][3], np.zeros((3, 4)))
    assert whole["tokens"][2:].tolist() == [[b"t"] * 3, [b""] * 3]


@pytest.mark.parametrize("lengths", [None, np.array(2), np.array([1.0, 2.0])])
def test_answers_are_not_cut_without_valid_lengths(lengths):
    response, others = answer([1, 2], 6), answer([3], 3)
    del response["sequence_len"]
    if lengths is not None:
        response["sequence_len"] = lengths
    assert joined([response], ["elmo"], {"elmo"})["elmo"].shape == (2, 6, 4)
    assert joined([response, others], ["elmo"], set())["elmo"].shape == (3, 6, 4)


def test_mentions_and_roles_keep_the_columns_of_the_longest_answer():
    responses = [
        {"entity": np.array([[0, 1, -1, -1], [2, -1, -1, -1]])},
        {"entity": np.array([[-1, -1]])},
    ]
    assert joined(responses, [], set())["entity"].tolist() == [[0, 1], [2, -1], [-1, -1]]
    roles = np.array([[b"O B", b"", b""], [b"B", b"O", b""]], object)
    assert joined([{"roles": roles}], [], set())["roles"].tolist() == roles[:, :2].tolist()
    assert joined([{"roles": roles[:, 2:]}], [], set())["roles"].shape == (2, 0)


def test_an_output_without_a_sentence_axis_cannot_be_joined():
    scalar = {"version": np.array(3)}
    assert joined([scalar], ["version"], set())["version"] == 3
    with pytest.raises(ValueError, match="'version' has not one row for each sentence, but the"):
        joined([scalar, scalar], ["version"], set())
