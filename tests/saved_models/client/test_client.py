"""A client gives the same answers over gRPC and REST."""

from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import pandas
import pytest

from elmo_tf.saved_models import serve
from elmo_tf.saved_models.client.client import Client, ServerError
from serving_requests import assert_refused


@pytest.fixture(scope="module")
def client(address):
    with Client(address) as client:
        yield client


def test_strings_give_the_elmo_vectors(client):
    answer = client.predict(sentence for sentence in ("a bb", "", "ccc"))
    lengths = np.array([[1, 2], [0, 0], [3, 0]], np.float32)
    assert list(answer) == ["elmo"]
    assert answer["elmo"].dtype == np.float32
    np.testing.assert_allclose(answer["elmo"], 100 * lengths[..., None] * np.arange(1, 7))


def test_lists_of_tokens_and_strings_give_the_same_vectors(client):
    outputs = ["elmo", "default", "sequence_len"]
    of_strings = client.predict(["a bb", "", "ccc"], outputs)
    of_tokens = client.predict([["a", "bb"], [], ["ccc"]], outputs)
    for name in outputs:
        np.testing.assert_array_equal(of_tokens[name], of_strings[name])


def test_empty_tokens_at_the_end_are_padding(client):
    answer = client.predict(np.array([["a", "bb"], ["ccc", ""]]), "sequence_len")
    assert answer["sequence_len"].tolist() == [2, 1]


def test_the_requested_outputs_are_returned(client):
    answer = client.predict(["a bb"], outputs=("default", "sequence_len"))
    assert {name: array.shape for name, array in answer.items()} == {
        "default": (1, 6),
        "sequence_len": (1,),
    }


def test_an_empty_outputs_argument_returns_all_outputs(client):
    answer = client.predict(["a bb"], outputs=())
    assert list(answer) == ["default", "elmo", "sequence_len", "word_emb"]


def test_no_sentences_give_no_rows(client):
    answer = client.predict([], outputs=["elmo", "default"])
    assert (len(answer["elmo"]), answer["default"].shape) == (0, (0, 6))
    assert client.predict([[], []])["elmo"].shape == (2, 0, 6)


def test_surrogates_are_sent_as_their_original_bytes(client):
    sentence = b"\xff\xfe".decode("utf-8", "surrogateescape")
    answer = client.predict([sentence, b"\xff\xfe", "\ud83d"], "word_emb")
    assert answer["word_emb"][:, 0, 0].tolist() == [2, 2, 3]  # the last one stands for no byte


def test_a_token_may_contain_any_character(client):
    answer = client.predict([["New York", '"\n\\', "\0é"]], "word_emb")
    assert answer["word_emb"][0, :, 0].tolist() == [8, 3, 3]


def test_a_request_above_grpcs_default_limit_is_sent(address):
    sentences = [f"{'a' * 3000} " * 10] * 200
    assert sum(map(len, sentences)) > 4 * 1024 * 1024
    with Client(address, batch_size=200) as client:
        assert client.predict(sentences)["elmo"][199, 9, 0] == 300_000


def test_a_version_can_be_requested(address):
    with Client(address, version=1) as client:
        assert client.predict(["a"])["elmo"][0, 0, 0] == 10
        assert client.metadata()["version"] == 1
        assert list(client.status()) == [1]


@pytest.mark.parametrize(("sentences", "position"), [([5], 0), ([["a"], ["b", 5]], 1)])
def test_sentences_of_other_types_are_an_error(client, sentences, position):
    with pytest.raises(TypeError, match=rf"Expected sentence {position} to be .*it holds 5\."):
        client.predict(sentences)


@pytest.mark.parametrize(
    "table", [{"text": ["a b"]}, pandas.DataFrame({"text": ["a b"]}), np.array([["a b"], ["c"]])]
)
def test_tables_and_columns_of_sentences_are_refused(client, table):
    for call in (client.predict, lambda sentences: next(client.stream(sentences))):
        with pytest.raises((TypeError, ValueError), match=r"not a table|Pass sentences as strings"):
            call(table)


def test_an_unknown_model_is_not_found(address):
    with Client(address, model="bert") as client:
        message = r"NOT_FOUND: Servable not found for request: Latest\(bert\)"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.predict, ["a"])
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.metadata)
        message = "NOT_FOUND: Could not find any versions of model bert"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, client.status)


def test_an_unknown_signature_is_refused(client):
    message = 'Serving signature (key|name:) "images" not found'
    code = grpc.StatusCode.FAILED_PRECONDITION
    if client.address.startswith("http"):  # Both are 400 there.
        code = grpc.StatusCode.INVALID_ARGUMENT
    assert_refused(code, message, client.predict, ["a"], signature="images")


def test_an_unknown_output_is_an_error_that_lists_the_others(client):
    message = "not found in signature: layers .* in the set {default,elmo,sequence_len,word_emb}"
    code = grpc.StatusCode.INVALID_ARGUMENT
    assert_refused(code, message, client.predict, ["a"], outputs="layers")


def test_a_server_error_has_details_and_is_a_grpc_error():
    error = ServerError(grpc.StatusCode.INTERNAL, "no memory")
    assert isinstance(error, grpc.RpcError)
    assert (error.details(), str(error)) == ("no memory", "INTERNAL: no memory")


def test_the_status_names_the_versions(client):
    client.predict(["a"])
    assert client.status()[2] == "AVAILABLE"


def test_the_metadata_describes_the_signatures(client):
    metadata = client.metadata()
    assert metadata["version"] == 2
    assert sorted(metadata["signatures"]) == ["other_types", "serving_default", "split", "tokens"]
    assert metadata["signatures"]["tokens"]["inputs"] == {
        "sequence_len": {"dtype": "int32", "shape": [None]},
        "tokens": {"dtype": "string", "shape": [None, None]},
    }
    outputs = metadata["signatures"]["serving_default"]["outputs"]
    assert outputs["default"]["dtype"] == "float32"


def test_a_closed_client_raises_an_error(address):
    client = Client(address)
    client.close()
    for function in (client.predict, client.stream):
        with pytest.raises(ValueError, match="The client is closed"):
            function(["a"])
    with pytest.raises(ValueError, match="The client is closed"):
        client.status()


@pytest.mark.parametrize("limits", [{"batch_size": 2}, {"batch_tokens": 3}])
def test_sentences_are_split_into_requests_and_joined_in_order(address, limits):
    sentences = ["a bb", "", "ccc", "d e f g", "h"]
    outputs = ["elmo", "default", "sequence_len"]
    with Client(address, batch_size=99) as client:
        whole = client.predict(sentences, outputs)
    with Client(address, **limits) as client:
        for split in (sentences, [sentence.split() for sentence in sentences]):
            joined = client.predict(split, outputs)
            assert list(joined) == outputs
            for name in outputs:
                np.testing.assert_array_equal(joined[name], whole[name])
                assert joined[name].dtype == whole[name].dtype


def test_threads_share_a_client(client):
    def lengths(number):
        return client.predict([f"{'a ' * number}"] * number, "sequence_len")["sequence_len"]

    with futures.ThreadPoolExecutor(8) as pool:
        for number, answer in enumerate(pool.map(lengths, range(1, 20)), start=1):
            assert answer.tolist() == [number] * number


def test_grpc_and_rest_give_the_same_vectors_of_an_exported_model(exported_elmo, elmo):
    sentences = ["the cat sat on it", "한국어 \udcff", "", "the end"]
    outputs = ["elmo", "default", "lstm_outputs1", "sequence_len"]
    with serve(Path(exported_elmo).parent, port=0, rest_port=0) as server:
        addresses = f"localhost:{server.port}", f"http://localhost:{server.rest_port}"
        answers = []
        for address in addresses:
            with Client(address, batch_size=2) as client:
                answers.append(client.predict(sentences, outputs))
    of_grpc, of_rest = answers
    assert of_grpc["elmo"].shape[1] == 5
    for name in outputs:
        np.testing.assert_array_equal(of_rest[name], of_grpc[name])
    np.testing.assert_allclose(of_grpc["elmo"], elmo(sentences).numpy(), atol=1e-5)
