"""How sentences are split into requests."""

import itertools

import pytest
from tensorflow_serving.apis import model_pb2

from elmo_tf.saved_models.messages import checked_sentences, predict_request, sentence_batches


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
    sentences = ["a bb", "c", "d e f", b"g", "h i"]
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
