"""How sentences are split into requests, and arrays of answers joined and cut."""

import itertools

import numpy as np
import pytest
from tensorflow_serving.apis import model_pb2

from elmo_tf.saved_models.messages import (
    OutputPlan,
    checked_sentences,
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
        batches = list(sentence_batches(checked_sentences(kind), *limits))
        assert [len(batch) for batch in batches] == sizes
        assert list(itertools.chain(*batches)) == kind


def test_a_full_request_does_not_wait_for_the_next_sentence():
    def sentences():
        yield "a"
        yield "b"
        raise RuntimeError("there is no third yet")

    assert next(sentence_batches(checked_sentences(sentences()), 2, 99)) == ["a", "b"]


def test_an_empty_request_has_the_shapes_of_the_signature():
    request = predict_request(model_pb2.ModelSpec(), [], signature="tokens")
    shapes = {
        name: [dim.size for dim in proto.tensor_shape.dim] for name, proto in request.inputs.items()
    }
    assert shapes == {"tokens": [0, 1], "sequence_len": [0]}


INFOS = infos(
    elmo=("float32", [None, None, 4]),
    default=("float32", [None, 4]),
    tokens=("string", [None, None]),
    odd=("float32", None),
    chars=("int32", [None, None]),
    pairs=("float32", [None, None, None]),
    sequence_len=("int32", [None]),
)
WITHOUT_LENGTHS = {name: info for name, info in INFOS.items() if name != "sequence_len"}


@pytest.mark.parametrize(
    ("wanted", "known", "requested"),
    [
        (["elmo"], INFOS, ["elmo", "sequence_len"]),
        (["sequence_len", "elmo"], INFOS, ["sequence_len", "elmo"]),
        (["default", "odd", "default"], INFOS, ["default", "odd"]),
        ([], INFOS, []),
        (["unknown"], INFOS, ["unknown"]),
        (["elmo"], WITHOUT_LENGTHS, ["elmo"]),
        (["elmo"], {}, ["elmo"]),
    ],
)
def test_lengths_are_requested_for_outputs_with_a_token_axis(wanted, known, requested):
    plan = OutputPlan(wanted, known)
    assert plan.requested == requested
    assert plan.with_tokens == ({"elmo", "tokens"} if known else set())


def answer(lengths, width):
    """An answer whose padding is 9 or `?`."""
    mask = np.arange(width) < np.array(lengths)[:, None]
    tokens = np.where(mask, b"t", b"?").astype(object)
    elmo = np.where(mask[..., None], np.arange(4.0, dtype=np.float32), 9)
    return {"elmo": elmo, "tokens": tokens, "sequence_len": np.array(lengths, np.int32)}


def test_answers_are_padded_to_the_longest_sentence_of_all_or_cut_into_rows():
    plan = OutputPlan(["elmo", "tokens"], INFOS)
    whole = plan.join([answer([1, 2], 6), answer([3], 3), answer([0], 0)])
    assert list(whole) == ["elmo", "tokens"]
    assert whole["elmo"].shape == (4, 3, 4)
    assert whole["elmo"].dtype == np.float32
    np.testing.assert_array_equal(whole["elmo"][3], np.zeros((3, 4)))
    assert whole["tokens"][2:].tolist() == [[b"t"] * 3, [b""] * 3]
    one, other = plan.rows(answer([1, 2], 6), 2)
    assert (one["elmo"].shape, other["elmo"].shape) == ((1, 4), (2, 4))
    assert other["tokens"].tolist() == [b"t", b"t"]
    assert one["elmo"].base is None


@pytest.mark.parametrize("lengths", [None, np.array(2), np.array([1.0, 2.0])])
def test_answers_are_not_cut_without_valid_lengths(lengths):
    response, others = answer([1, 2], 6), answer([3], 3)
    del response["sequence_len"]
    if lengths is not None:
        response["sequence_len"] = lengths
    assert OutputPlan(["elmo"], INFOS).join([response])["elmo"].shape == (2, 6, 4)
    assert OutputPlan(["elmo"], {}).join([response, others])["elmo"].shape == (3, 6, 4)


def test_an_output_without_a_sentence_axis_cannot_be_joined():
    plan = OutputPlan(["version"], {})
    scalar = {"version": np.array(3)}
    assert plan.join([scalar])["version"] == 3
    with pytest.raises(ValueError, match="'version' has not one row for each sentence, but the"):
        plan.join([scalar, scalar])
    with pytest.raises(ValueError, match=r"the shape \(2, 6, 4\). Use `predict` for it"):
        list(OutputPlan(["elmo"], INFOS).rows(answer([1, 2], 6), 3))
