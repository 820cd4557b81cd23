"""A client gives the same answers over gRPC and REST."""

from pathlib import Path

import grpc
import numpy as np
import pandas
import pytest

from elmo_tf.saved_models import serve
from elmo_tf.saved_models.client.client import Client
from serving_requests import assert_refused


@pytest.fixture(scope="module")
def client(address):
    with Client(address) as client:
        yield client


@pytest.mark.parametrize("batch_size", [99, 2])
def test_strings_and_lists_of_tokens_give_the_requested_outputs(address, batch_size):
    sentences = ["a bb", "", "ccc", "d e f g", "h"]
    lengths = np.array([[1, 2, 0, 0], [0] * 4, [3, 0, 0, 0], [1] * 4, [1, 0, 0, 0]], np.float32)
    padded = np.array([["a", "bb"], ["ccc", ""]])
    with Client(address, batch_size=batch_size) as client:
        for given in (iter(sentences), [sentence.split() for sentence in sentences]):
            answer = client.predict(given, ["sequence_len", "elmo"])
            assert list(answer) == ["sequence_len", "elmo"]
            assert answer["sequence_len"].tolist() == [2, 0, 1, 4, 1]
            assert answer["elmo"].dtype == np.float32
            wanted = 100 * lengths[..., None] * np.arange(1, 7)
            np.testing.assert_allclose(answer["elmo"], wanted)
        assert client.predict(padded, "sequence_len")["sequence_len"].tolist() == [2, 1]
        assert list(client.predict(["a"], ())) == ["default", "elmo", "sequence_len", "word_emb"]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["a"], ["b", 5]], r"Expected sentence 1 to be .*it holds 5\."),
        ({"text": ["a b"]}, "not a table"),
        (pandas.DataFrame({"text": ["a b"]}), "not a table"),
        (np.array([["a b"], ["c"]]), "Pass sentences as strings"),
        (["a", ["d"]], r"sentence 1 is \['d'\] and has another type than"),
        ([["a"], ["", "c"]], "Sentence 1 has an empty token"),
        ("abc", "not one string: 'abc'"),
    ],
)
def test_other_sentences_are_refused(client, sentences, message):
    for call in (client.predict, lambda sentences: list(client.stream(sentences))):
        with pytest.raises((TypeError, ValueError), match=message):
            call(sentences)


def test_no_sentences_give_no_rows_and_surrogates_their_original_bytes(client):
    answer = client.predict([], outputs=["elmo", "default"])
    assert (len(answer["elmo"]), answer["default"].shape) == (0, (0, 6))
    assert client.predict([[], []])["elmo"].shape == (2, 0, 6)
    sentence = b"\xff\xfe".decode("utf-8", "surrogateescape")
    answer = client.predict([sentence, b"\xff\xfe", "\ud83d"], "word_emb")
    assert answer["word_emb"][:, 0, 0].tolist() == [2, 2, 3]  # the last one stands for no byte


def test_a_version_can_be_requested(address):
    with Client(address, version=1) as client:
        assert client.predict(["a"])["elmo"][0, 0, 0] == 10
        assert client.metadata()["version"] == 1
        assert list(client.status()) == [1]


def test_an_unknown_model_signature_or_output_is_an_error(client):
    with Client(client.address, model="bert") as other:
        message = r"NOT_FOUND: Servable not found for request: Latest\(bert\)"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, other.predict, ["a"])
        assert_refused(grpc.StatusCode.NOT_FOUND, message, other.metadata)
        message = "NOT_FOUND: Could not find any versions of model bert"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, other.status)
    # Over REST, both of these are 400.
    code = grpc.StatusCode.INVALID_ARGUMENT
    message = "not found in signature: layers .* in the set {default,elmo,sequence_len,word_emb}"
    assert_refused(code, message, client.predict, ["a"], outputs="layers")
    if not client.address.startswith("http"):
        code = grpc.StatusCode.FAILED_PRECONDITION
    message = 'Serving signature key "images" not found'
    assert_refused(code, message, client.predict, ["a"], signature="images")


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
    for function, arguments in (
        *((function, [["a"]]) for function in (client.predict, client.stream)),
        *((function, []) for function in (client.status, client.metadata)),
    ):
        with pytest.raises(ValueError, match="The client is closed"):
            function(*arguments)


def test_grpc_and_rest_give_the_same_vectors_of_an_exported_model(exported_elmo, elmo):
    sentences = ["the cat sat on it", "한국어 \udcff", "", "the end"]
    outputs = ["elmo", "default", "lstm_outputs1", "sequence_len"]
    answers = []
    with serve(Path(exported_elmo).parent, port=0, rest_port=0) as server:
        for address in (f"localhost:{server.port}", f"http://localhost:{server.rest_port}"):
            with Client(address, batch_size=2) as client:
                answers.append(client.predict(sentences, outputs))
    of_grpc, of_rest = answers
    assert of_grpc["elmo"].shape[1] == 5
    for name in outputs:
        np.testing.assert_array_equal(of_rest[name], of_grpc[name])
    np.testing.assert_allclose(of_grpc["elmo"], elmo(sentences).numpy(), atol=1e-5)
