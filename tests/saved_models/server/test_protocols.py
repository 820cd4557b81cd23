"""What a server answers and refuses, over gRPC and REST."""

import json
import re

import grpc
import numpy as np
import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families

from elmo_tf.saved_models.server.batching import Limits
from elmo_tf.saved_models.server.model import ServedModel
from serving_requests import (
    SENTENCES,
    assert_bad,
    assert_refused,
    outputs_over_rest,
    predict,
    predict_rest,
    send,
    serving,
)

TOKENS = {"tokens": [["a", "bb"], ["ccc", ""]], "sequence_len": [2, 1]}


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


def test_rest_takes_instances_and_inputs(server):
    rows = [dict(zip(TOKENS, row, strict=True)) for row in zip(*TOKENS.values(), strict=True)]
    status, by_row = predict_rest(server, {"signature_name": "tokens", "instances": rows})
    assert status == 200
    _, by_column = predict_rest(server, {"signature_name": "tokens", "inputs": TOKENS})
    for name in ("default", "elmo", "sequence_len", "word_emb"):
        assert [row[name] for row in by_row["predictions"]] == by_column["outputs"][name]
    elmo = np.array(by_column["outputs"]["elmo"])
    np.testing.assert_allclose(elmo, 100 * np.array([[1, 2], [3, 0]])[..., None] * np.arange(1, 7))


def test_numbers_are_exact_over_rest_and_no_sentences_give_no_rows(server):
    thirds = outputs_over_rest(server, ["a b dd"])["default"][0].astype(np.float32)
    np.testing.assert_array_equal(thirds, np.arange(400, 2401, 400, np.float32) / np.float32(3))
    assert outputs_over_rest(server, [])["default"].tolist() == []


def test_rest_returns_the_outputs_of_a_filter(server):
    request = {"inputs": ["a"], "output_filter": ["word_emb", "default"]}
    assert list(predict_rest(server, request)[1]["outputs"]) == ["word_emb", "default"]
    request["output_filter"] = ["layers"]
    assert_bad(predict_rest(server, request), "no output layers. Outputs: default, elmo, seq")


@pytest.mark.parametrize(
    ("string", "num_bytes"),
    [
        *((b'"J\xc3\xbcrgen"', 7), (b'{"b64": "SsO8cmdlbg=="}', 7), (b'"J\\u00fcrgen"', 7)),
        (b'"\xff\xfe\xfd"', 3),
    ],
)
def test_a_json_string_is_utf8_base64_or_bytes(server, string, num_bytes):
    _, document = predict_rest(server, b'{"instances": [%s]}' % string)
    assert document["predictions"][0]["word_emb"][0][0] == num_bytes


TOO_LONG = {"strings": ["a " * 65_537]}


@pytest.mark.parametrize(
    ("spec", "inputs", "status", "code", "message"),
    [
        ({"name": "bert"}, None, 404, "NOT_FOUND", "There is no model bert, only elmo."),
        ({"signature": "images"}, None, 400, "FAILED_PRECONDITION", "no signature 'images'"),
        (
            *({"signature": "tokens"}, {"tokens": [["a"]], "sequence_len": [2]}),
            *(400, "INVALID_ARGUMENT", "sequence_len is longer than the sentence"),
        ),
        ({}, TOO_LONG, 400, "INVALID_ARGUMENT", "their product must be at most 65536"),
    ],
)
def test_an_invalid_request_is_refused(server, channel, spec, inputs, status, code, message):
    inputs = inputs or {"strings": ["a"]}
    protos = {name: tf.make_tensor_proto(value) for name, value in inputs.items()}
    code = grpc.StatusCode[code]
    assert_refused(code, re.escape(message), predict, channel, protos, **spec)
    body = {"signature_name": spec.get("signature", ""), "inputs": inputs}
    path = f"/v1/models/{spec.get('name', 'elmo')}"
    assert_bad(predict_rest(server, body, path), message, status)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"strings": SENTENCES, "lines": SENTENCES}, "['strings'], but got ['lines', 'strings']"),
        ({"strings": tf.make_tensor_proto([1, 2])}, "strings must be string, but is int32"),
        ({"strings": tf.make_tensor_proto([["a"]])}, "the shape (None,), but has (1, 1)"),
    ],
)
def test_an_invalid_proto_is_refused(channel, inputs, message):
    code = grpc.StatusCode.INVALID_ARGUMENT
    assert_refused(code, re.escape(message), predict, channel, inputs)


def of_tokens(**inputs):
    return {"signature_name": "tokens", "inputs": TOKENS | inputs}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 100_000, "The body is not JSON: "),
        ({}, "Expected a JSON object with 'instances' or 'inputs', but got {}"),
        ({"instances": []}, "Expected 'instances' to be a list of rows, but got []"),
        ({"instances": [{"lines": "a"}]}, "Expected row 0 of 'instances' to be an object with ["),
        (of_tokens(tokens=[["a", "b"], ["c"]]), "tokens to have 2 axes with lists of equal lengt"),
        ({"signature_name": 1, "inputs": []}, "'signature_name' to be a string, but got 1"),
        ({"inputs": [], "output_filter": "elmo"}, "'output_filter' to be a list, but got "),
        ({"inputs": [], "output_filter": [["elmo"]]}, "has no output ['elmo']. Outputs: "),
        ({"inputs": [{"b64": "???"}]}, "bytes as {\"b64\": \"…\"}), but got [{'b64': '???'}]"),
        (of_tokens(sequence_len=[2, True]), "sequence_len to hold int32, but got [2, True]"),
        (of_tokens(sequence_len=[2, 2**31]), "sequence_len to hold int32, but got [2, 2147483648]"),
    ],
)
def test_an_invalid_json_is_refused(server, body, message):
    assert_bad(predict_rest(server, body), message)


@pytest.mark.parametrize("key", ["inputs", "instances"])
def test_too_long_lists_are_refused_before_their_values_are_checked(server, key):
    body = b'{"%s": [%s"" ]}' % (key.encode(), b'"",' * 2**19)
    message = "strings has the shape [524289], which is more than 8388608 bytes"
    assert_bad(predict_rest(server, body), message)


def test_an_invalid_path_and_an_unknown_model_are_errors(server):
    for method, path, status, message in (
        ("POST", "elmo:classify", 405, "Method Not Allowed"),
        ("GET", "bert", 404, "no model bert"),
        ("GET", "elmo/versions/1/metadata", 404, "Only the newest version of elmo, 2, is served"),
        ("GET", f"elmo/versions/{10**20}", 404, "Only the newest version of elmo, 2, is served"),
    ):
        found, _, text = send(server, method, f"/v1/models/{path}")
        assert_bad((found, json.loads(text)), message, status)


def test_the_newest_version_may_be_named_and_no_other(channel, server):
    assert predict(channel, version={"value": 2}).model_spec.version.value == 2
    for path in ("", "/metadata"):
        named, newest = (
            send(server, "GET", f"/v1/models/elmo{version}{path}")
            for version in ("/versions/2", "")
        )
        assert named[::2] == newest[::2]
    for spec in ({"version": {"value": 1}}, {"version_label": "stable"}):
        message = "Only the newest version of elmo, 2, is served"
        assert_refused(grpc.StatusCode.NOT_FOUND, message, predict, channel, **spec)


def test_a_body_above_the_limit_is_refused(model_directory):
    limits = Limits(max_request_bytes=10_000)
    with serving(model_directory, limits=limits) as (server, channel):
        message = "The request has more than 10000 bytes"
        assert_bad(predict_rest(server, {"inputs": ["x" * 10_000]}), message, 413)
        chunked = {"Transfer-Encoding": "chunked"}
        path = "/v1/models/elmo:predict"
        for size, expected in ((9000, 200), (10_000, 413)):
            chunk = b'{"inputs":["%s"]}' % (b"x" * size)
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(chunk), chunk)
            assert send(server, "POST", path, body, chunked)[0] == expected
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        strings = {"strings": tf.make_tensor_proto(["x" * 10_000])}
        assert_refused(code, "larger than max", predict, channel, strings)
        assert predict(channel)


def test_an_unexpected_exception_is_an_internal_error(server, channel, monkeypatch):
    def fail(self, *args):
        raise KeyError("lost")

    monkeypatch.setattr(ServedModel, "version", fail)
    assert_refused(grpc.StatusCode.INTERNAL, "KeyError: 'lost'", predict, channel)
    assert_bad(predict_rest(server, {"inputs": ["a"]}), "KeyError: 'lost'", 500)
    monkeypatch.undo()
    assert predict(channel)
    assert predict_rest(server, {"inputs": ["a"]})[0] == 200


METHODS = ("PredictionService/Predict", "PredictionService/GetModelMetadata")
METHODS += ("ModelService/GetModelStatus",)


@pytest.mark.parametrize(
    ("method", "content", "message"),
    [
        *((method, b"", "does not name a model") for method in METHODS),
        (METHODS[0], b"\xff\xff\xff", "Cannot parse the request"),
        ("PredictionService/Classify", b"", "UNIMPLEMENTED"),
    ],
)
def test_invalid_bytes_and_methods_are_refused(channel, method, content, message):
    call = channel.unary_unary(f"/tensorflow.serving.{method}", _registered_method=True)
    code = "UNIMPLEMENTED" if message == "UNIMPLEMENTED" else "INVALID_ARGUMENT"
    assert_refused(grpc.StatusCode[code], message, call, content, timeout=10)


def test_the_signatures_of_the_model_are_described(server):
    _, _, name = send(server, "GET", "/model.json")
    _, _, metadata = send(server, "GET", "/v1/models/elmo/metadata")
    assert json.loads(name) == {"model": "elmo"}
    document = json.loads(metadata)
    assert document["model_spec"] == {"name": "elmo", "signature_name": "", "version": "2"}
    signatures = document["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == ["serving_default", "split", "tokens"]
    word_emb = signatures["tokens"]["outputs"]["word_emb"]
    assert word_emb["dtype"] == "DT_FLOAT"
    assert [dim["size"] for dim in word_emb["tensor_shape"]["dim"]] == ["-1", "-1", "3"]


def test_requests_are_counted_and_timed(model_directory):
    with serving(model_directory) as (server, channel):
        predict(channel)
        assert_refused(grpc.StatusCode.NOT_FOUND, "", predict, channel, name="bert")
        predict_rest(server, {"inputs": ["a b"]})
        predict_rest(server, {"inputs": ["a b"]}, "/v1/models/bert")
        _, headers, text = send(server, "GET", "/monitoring/prometheus/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    requests = families[":tensorflow:serving:request_count"].samples
    counts = {tuple(sorted(sample.labels.values())): sample.value for sample in requests}
    # Unknown names must not use memory.
    assert counts == {("OK", "elmo"): 2, ("", "NOT_FOUND"): 2}
    latencies = families[":tensorflow:serving:request_latency"].samples
    counts = {
        (sample.labels["model_name"], sample.labels["entrypoint"]): sample.value
        for sample in latencies
        if sample.name.endswith("_count")
    }
    assert counts == {("elmo", "GRPC"): 1, ("elmo", "REST"): 1}
