"""Addresses and options of a client, and its answers."""

import pickle

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from elmo_tf.saved_models.client import Client, ServerError, channel_options


@pytest.mark.parametrize("batch_size", [99, 2])
def test_strings_and_lists_of_tokens_give_the_requested_outputs(address, batch_size):
    sentences = ["a bb", "", "ccc", "d e f g", "h"]
    tokens = [sentence.split() for sentence in sentences]
    lengths = np.array([[1, 2, 0, 0], [0] * 4, [3, 0, 0, 0], [1] * 4, [1, 0, 0, 0]], np.float32)
    padded = np.array([["a", "bb"], ["ccc", ""]])
    with Client(address, batch_size=batch_size) as client:
        for given in (iter(sentences), tokens, [*sentences[:2], *tokens[2:]]):
            answer = client.predict(given, ["sequence_len", "elmo"])
            assert list(answer) == ["sequence_len", "elmo"]
            assert answer["sequence_len"].tolist() == [2, 0, 1, 4, 1]
            assert answer["elmo"].dtype == np.float32
            wanted = 100 * lengths[..., None] * np.arange(1, 7)
            np.testing.assert_allclose(answer["elmo"], wanted)
        assert client.predict(padded, "sequence_len")["sequence_len"].tolist() == [2, 1]
        assert list(client.predict(["a"], ())) == ["default", "elmo", "sequence_len", "word_emb"]


def test_no_sentences_give_no_rows_and_surrogates_their_original_bytes(client):
    answer = client.predict([], outputs=["elmo", "default"])
    assert (len(answer["elmo"]), answer["default"].shape) == (0, (0, 6))
    assert client.predict([[], []])["elmo"].shape == (2, 0, 6)
    assert client.predict([], signature="tokens")["elmo"].shape == (0, 0, 6)
    sentence = b"\xff\xfe".decode("utf-8", "surrogateescape")
    answer = client.predict([sentence, b"\xff\xfe", "\ud83d"], "word_emb")
    assert answer["word_emb"][:, 0, 0].tolist() == [2, 2, 3]  # the last one stands for no byte


def test_padding_from_other_users_sentences_is_cut_off(grpc_server, lengths, response, address):
    def predict(request, context):
        arrays = {name: tf.make_ndarray(one) for name, one in lengths(request).outputs.items()}
        padded = np.pad(arrays["elmo"], ((0, 0), (0, 40), (0, 0)), constant_values=7.0)
        return response(elmo=padded, sequence_len=arrays["sequence_len"])

    with grpc.insecure_channel(address) as channel:
        real = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        port = grpc_server(predict, lambda request, context: real.GetModelMetadata(request))
        with Client(f"localhost:{port}") as client:
            for outputs in ("elmo", ()):
                elmo = client.predict(["a bb", "", "d e f g"], outputs)["elmo"]
                assert elmo[..., 0].tolist() == [[1, 1, 0, 0], [0] * 4, [1] * 4]


def test_a_channel_of_the_caller_stays_open(address):
    with grpc.insecure_channel(address, channel_options(retries=0)) as channel:
        with Client(channel) as client:
            assert client.predict(["a"])["elmo"][0, 0, 0] == 100
        with pytest.raises(ServerError, match="NOT_FOUND") as caught:
            Client(channel, "bert").predict(["a"])
    copy = pickle.loads(pickle.dumps(caught.value))  # from a process of a pool
    assert (copy.code(), str(copy)) == (caught.value.code(), str(caught.value))


BAD_ADDRESS = "must be host:port .*localhost:8500, .*a gRPC channel.* '{}'. For REST.*client.md"


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        *(
            (address, {}, BAD_ADDRESS.format(address))
            for address in ("http://h:8501", "grpcs://localhost", "a b:1", "h:x")
        ),
        ("localhost:1", {"retries": 5}, r"`retries` must be 0 … 4, but is 5\."),
        ("localhost:1", {"batch_size": 0}, "`batch_size` and `batch_tokens` must be at least 1"),
    ],
)
def test_an_invalid_address_or_option_is_an_error(address, options, message):
    with pytest.raises(ValueError, match=message):
        Client(address, **options)


def test_grpc_addresses_are_accepted():
    for address in ("localhost:8500", "GRPC://a.b:1", "[::1]:8500", "grpcs://h:1"):
        Client(address).close()
