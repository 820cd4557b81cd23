import socket

import grpc
import numpy as np
import pytest

from elmo_tf.saved_models.client import Client, ServerError


@pytest.fixture(scope="module")
def client(server):
    with Client(f"127.0.0.1:{server.port}") as client:
        yield client


def assert_refused(code, message, function, *args, **kwargs):
    with pytest.raises(ServerError, match=message) as caught:
        function(*args, **kwargs)
    assert caught.value.code() == code


def test_strings_give_the_elmo_vectors(client):
    answer = client.predict(["a bb", "", "ccc"])
    lengths = np.array([[1, 2], [0, 0], [3, 0]], np.float32)
    assert list(answer) == ["elmo"]
    assert answer["elmo"].dtype == np.float32
    np.testing.assert_allclose(answer["elmo"], 100 * lengths[..., None] * np.arange(1, 7))


def test_lists_of_tokens_give_what_strings_give(client):
    outputs = ["elmo", "default", "sequence_len"]
    of_strings = client.predict(["a bb", "", "ccc"], outputs)
    of_tokens = client.predict([["a", "bb"], [], ["ccc"]], outputs)
    for name in outputs:
        np.testing.assert_array_equal(of_tokens[name], of_strings[name])


def test_a_token_may_hold_white_space(client):
    assert client.predict([["New York"]], "word_emb")["word_emb"][0, :, 0].tolist() == [8]


def test_empty_tokens_at_the_end_are_padding(client):
    answer = client.predict(np.array([["a", "bb"], ["ccc", ""]]), "sequence_len")
    assert answer["sequence_len"].tolist() == [2, 1]


def test_the_outputs_are_those_asked_for(client):
    answer = client.predict(["a bb"], outputs=("default", "sequence_len"))
    assert {name: array.shape for name, array in answer.items()} == {
        "default": (1, 6),
        "sequence_len": (1,),
    }


def test_no_outputs_named_means_all(client):
    answer = client.predict(["a bb"], outputs=())
    assert list(answer) == ["default", "elmo", "sequence_len", "word_emb"]


def test_no_sentences_give_no_rows(client):
    answer = client.predict([], outputs=["elmo", "default"])
    assert (len(answer["elmo"]), answer["default"].shape) == (0, (0, 6))


def test_sentences_without_tokens_give_vectors_without_tokens(client):
    assert client.predict([[], []])["elmo"].shape == (2, 0, 6)


def test_any_iterable_of_sentences_will_do(client):
    assert client.predict(sentence for sentence in ("a", "b"))["elmo"].shape == (2, 1, 6)


def test_surrogates_stand_for_the_bytes_that_they_came_from(client):
    sentence = b"\xff\xfe".decode("utf-8", "surrogateescape")
    answer = client.predict([sentence, b"\xff\xfe"], "word_emb")
    assert answer["word_emb"][:, 0, 0].tolist() == [2, 2]


def test_a_surrogate_that_stands_for_no_byte_is_three_bytes(client):
    assert client.predict(["\ud83d"], "word_emb")["word_emb"][0, 0, 0] == 3


def test_the_signature_may_be_named(client):
    assert client.predict(["a"], signature="serving_default")["elmo"].shape == (1, 1, 6)


def test_an_answer_larger_than_grpcs_usual_limit_is_received(client):
    sentences = ["a " * 1000] * 200
    assert client.predict(sentences)["elmo"].nbytes > 4 * 1024 * 1024


def test_a_version_may_be_asked_for(server):
    with Client(f"127.0.0.1:{server.port}", version=1) as client:
        assert client.predict(["a"])["elmo"][0, 0, 0] == 10


def test_one_string_is_not_a_list_of_sentences(client):
    with pytest.raises(TypeError, match="Expected a list of sentences, but got one string: 'a b'"):
        client.predict("a b")


def test_strings_and_lists_of_tokens_do_not_mix(client):
    with pytest.raises(TypeError, match="either strings or lists of tokens, but 1 of 2"):
        client.predict(["a", ["b"]])


@pytest.mark.parametrize(("sentences", "position"), [([5], 0), ([["a"], ["b", 5]], 1)])
def test_what_is_not_text_is_not_a_sentence(client, sentences, position):
    with pytest.raises(TypeError, match=rf"Expected sentence {position} to be .*it holds 5\."):
        client.predict(sentences)


def test_an_empty_token_before_a_real_one_is_an_error(client):
    with pytest.raises(ValueError, match="Sentence 1 has an empty token before a real one"):
        client.predict([["a"], ["", "b"]])


@pytest.mark.parametrize("address", ["localhost", "http://localhost:8501", "HTTPS://localhost:1"])
def test_an_address_that_is_not_host_and_port_is_an_error(address):
    with pytest.raises(ValueError, match=rf"must be host:port .*localhost:8500, but is '{address}"):
        Client(address)


def test_an_unknown_model_is_not_found(server):
    with Client(f"127.0.0.1:{server.port}", model="bert") as client:
        message = r"NOT_FOUND: Servable not found for request: Latest\(bert\)"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.predict, ["a"])
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.metadata)
        message = "NOT_FOUND: Could not find any versions of model bert"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.status)


def test_an_unknown_signature_is_a_failed_precondition(client):
    message = 'Serving signature key "images" not found'
    code = grpc.StatusCode.FAILED_PRECONDITION
    assert_refused(code, message, client.predict, ["a"], signature="images")


def test_an_unknown_output_is_an_invalid_argument_that_names_the_others(client):
    message = "not found in signature: layers .* in the set {default,elmo,sequence_len,word_emb}"
    code = grpc.StatusCode.INVALID_ARGUMENT
    assert_refused(code, message, client.predict, ["a"], outputs="layers")


def test_a_server_that_is_not_there_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with Client(address) as client:
        message = f"UNAVAILABLE: Cannot reach a model server at {address}: .* Is it running"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.predict, ["a"])


def test_the_port_of_rest_is_unavailable(server):
    with Client(f"127.0.0.1:{server.rest_port}") as client:
        message = "and is this the port of its gRPC"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.status)


def test_a_server_that_takes_too_long_is_an_error():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.1) as client,
    ):
        message = r"did not answer within 0\.1 s"
        assert_refused(grpc.StatusCode.DEADLINE_EXCEEDED, message, client.predict, ["a"])


def test_the_error_keeps_the_details_and_is_one_of_grpc():
    error = ServerError(grpc.StatusCode.INTERNAL, "no memory")
    assert isinstance(error, grpc.RpcError)
    assert (error.details(), str(error)) == ("no memory", "INTERNAL: no memory")


def test_the_status_names_the_versions(client):
    client.predict(["a"])
    assert client.status()[2] == "AVAILABLE"


def test_the_metadata_describes_the_signatures(client):
    metadata = client.metadata()
    assert metadata["version"] == 2
    assert sorted(metadata["signatures"]) == ["other_types", "serving_default", "tokens"]
    assert metadata["signatures"]["tokens"]["inputs"] == {
        "sequence_len": {"dtype": "int32", "shape": [None]},
        "tokens": {"dtype": "string", "shape": [None, None]},
    }
    outputs = metadata["signatures"]["serving_default"]["outputs"]
    assert outputs["default"]["dtype"] == "float32"


def test_a_closed_client_does_not_ask(server):
    client = Client(f"127.0.0.1:{server.port}")
    client.close()
    with pytest.raises(ValueError, match="closed channel"):
        client.predict(["a"])
