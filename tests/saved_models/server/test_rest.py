import base64

import numpy as np
import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families

from elmo_tf.saved_models.server import rest_json
from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.server import serve
from rest_requests import ask, assert_refused, get, predict

TOKENS = {"tokens": [["a", "bb"], ["ccc", ""]], "sequence_len": [2, 1]}


def test_instances_give_one_prediction_per_row(server):
    status, document = predict(server, {"instances": ["a bb", "", "ccc"]})
    assert status == 200
    assert [row["sequence_len"] for row in document["predictions"]] == [2, 0, 1]
    elmo = np.array([row["elmo"] for row in document["predictions"]])
    lengths = np.array([[1, 2], [0, 0], [3, 0]])
    np.testing.assert_allclose(elmo, 100 * lengths[..., None] * np.arange(1, 7))


def test_inputs_give_one_tensor_per_output(server):
    status, document = predict(server, {"inputs": ["a bb", "ccc"]})
    assert status == 200
    assert sorted(document["outputs"]) == ["default", "elmo", "sequence_len", "word_emb"]
    assert document["outputs"]["sequence_len"] == [2, 1]
    assert np.shape(document["outputs"]["word_emb"]) == (2, 2, 3)


def test_instances_may_be_objects_of_several_inputs(server):
    rows = [
        {"tokens": tokens, "sequence_len": length}
        for tokens, length in zip(TOKENS["tokens"], TOKENS["sequence_len"], strict=True)
    ]
    in_rows = predict(server, {"signature_name": "tokens", "instances": rows})
    in_columns = predict(server, {"signature_name": "tokens", "inputs": TOKENS})
    assert in_rows[0] == in_columns[0] == 200
    elmo = [row["elmo"] for row in in_rows[1]["predictions"]]
    assert elmo == in_columns[1]["outputs"]["elmo"]


def test_every_type_is_sent_and_received(server):
    body = {"signature_name": "other_types", "inputs": {"number": 0.1, "flags": [True, False]}}
    status, document = predict(server, body)
    assert status == 200
    assert document["outputs"] == {
        "scalar": 10.0,
        "half": [0.1, 0.1],
        "large": [2**40, 2**40],
        "flags": [False, True],
        "text": "Jürgen",
        "some_bytes": [{"b64": base64.b64encode(b"\xff").decode()}],
    }


@pytest.mark.parametrize("string", ['"Jürgen"', '{"b64": "SsO8cmdlbg=="}', '"J\\u00fcrgen"'])
def test_a_string_is_utf8_or_base64(server, string):
    body = f'{{"instances": [{string}]}}'.encode()
    _, document = predict(server, body)
    assert document["predictions"][0]["word_emb"][0][0] == len("Jürgen".encode())


def test_bytes_that_are_not_utf8_reach_the_model(server):
    _, document = predict(server, b'{"instances": ["\xff\xfe\xfd"]}')
    assert document["predictions"][0]["word_emb"][0][0] == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON Parse error: Expecting property name"),
        (b"[" * 100_000, "JSON Parse error: "),
        ([1], "Expected a JSON object, but received [1]"),
        ({"signature_name": 1}, "'signature_name' key must be a string value."),
        ({"signature_name": "\ud800", "inputs": []}, "'signature_name' is not Unicode: \"\\ud800"),
        ({}, "Expected one of the keys 'instances' and 'inputs'"),
        ({"instances": ["a"], "inputs": ["a"]}, "Expected one of the keys 'instances' and"),
        (
            {"signature_name": "images", "inputs": ["a"]},
            'Serving signature name: "images" not found in signature def',
        ),
        ({"instances": "a"}, "Expected 'instances' to be a list of rows, but got \"a\""),
        (
            {"instances": [{"lines": "a"}]},
            "Expected row 0 of 'instances' to be an object with ['strings'], but got {",
        ),
        (
            {"signature_name": "tokens", "inputs": {"tokens": [["a"]]}},
            "Expected 'inputs' to be an object with ['sequence_len', 'tokens'], but got {",
        ),
        (
            {"signature_name": "tokens", "inputs": TOKENS | {"tokens": ["a"]}},
            "Expected tokens to have 2 axes, but got 1",
        ),
        (
            {"signature_name": "tokens", "inputs": TOKENS | {"tokens": [["a", "b"], ["c"]]}},
            'The lists of tokens are ragged: expected 2 elements, but got ["c"]',
        ),
        ({"inputs": ["a", ["b"]]}, 'Expected strings to hold string, but got ["b"]'),
        ({"inputs": [{"b64": "???"}]}, 'to hold strings or {"b64": "…"}, but got {"b64": "???"}'),
        ({"inputs": ["\ud800"]}, 'A string of strings is not Unicode: "\\ud800"'),
        (
            {"signature_name": "tokens", "inputs": TOKENS | {"sequence_len": [2, True]}},
            "Expected sequence_len to hold int32, but got true",
        ),
        (
            {"signature_name": "tokens", "inputs": TOKENS | {"sequence_len": [2, 2**31]}},
            "Expected sequence_len to hold int32, but got 2147483648",
        ),
        (
            {"signature_name": "other_types", "inputs": {"number": 10**400, "flags": []}},
            "Expected number to hold float32, but got 1000",
        ),
        (
            {"signature_name": "other_types", "inputs": {"number": 1, "flags": [0]}},
            "Expected flags to hold bool, but got 0",
        ),
        (
            {"signature_name": "other_types", "instances": [{"number": 1, "flags": True}]},
            "Expected number to have 0 axes, but got 1",
        ),
        (
            {"signature_name": "tokens", "inputs": TOKENS | {"sequence_len": [3, 1]}},
            "sequence_len is longer than the sentence",
        ),
    ],
)
def test_an_invalid_body_is_a_bad_request(server, body, message):
    assert_refused(400, message, predict(server, body))


@pytest.mark.parametrize("key", ["inputs", "instances"])
def test_too_long_lists_are_refused_before_their_values_are_checked(server, key):
    body = b'{"%s": [%s"" ]}' % (key.encode(), b'"", ' * 2**22)
    message = "strings has the shape [4194305], which is more than 67108864 bytes"
    assert_refused(400, message, predict(server, body))


def test_deeply_nested_lists_are_refused(server):
    for depth in range(950, 1000):
        body = b'{"inputs": ["a", %s%s]}' % (b"[" * depth, b"]" * depth)
        assert predict(server, body)[0] == 400


@pytest.mark.parametrize("shapes", [[(2,), ()], [(2,), (3,)]])
def test_outputs_without_a_common_number_of_rows_are_refused(shapes):
    outputs = {f"output_{number}": np.zeros(shape) for number, shape in enumerate(shapes)}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"one row for each instance: their"):
        rest_json.rows(outputs)


def test_a_single_output_has_no_name_in_json():
    outputs = {"number": np.array([1, 2])}
    assert rest_json.rows(outputs) == rest_json.columns(outputs) == [1, 2]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("POST", "/v1/models/elmo:classify"),
        ("POST", "/v1/models/elmo/versions/new:predict"),
    ],
)
def test_an_invalid_path_is_an_error_that_lists_the_valid_ones(server, method, path):
    message = f"Malformed request: {method} {path}. This server knows GET /v1/models/NAME"
    assert_refused(400, message, ask(server, method, path))


def test_an_unsupported_method_is_refused_in_json(server):
    assert_refused(501, "Unsupported method ('PUT')", ask(server, "PUT", "/v1/models/elmo"))


def test_a_body_of_unknown_length_or_above_the_limit_is_refused(server):
    size = Limits().max_request_bytes + 1
    for header, message in (
        ({"Content-Length": "many"}, "Content-Length is missing"),
        ({"Transfer-Encoding": "chunked"}, "Content-Length is missing"),
        ({"Content-Length": str(size)}, f"The request has {size} bytes, more than"),
    ):
        assert_refused(400, message, ask(server, "POST", "/v1/models/elmo:predict", None, header))


def test_an_unexpected_exception_is_an_internal_error(server, monkeypatch):
    def fail(self, *arguments, **named):
        raise KeyError("lost")

    monkeypatch.setattr(Catalogue, "predict", fail)
    assert_refused(500, "KeyError: 'lost'", predict(server, {"inputs": ["a"]}))
    monkeypatch.undo()
    assert predict(server, {"inputs": ["a"]})[0] == 200


def test_the_status_names_the_versions(server):
    assert ask(server, "GET", "/v1/models/elmo/versions/2") == (
        200,
        {
            "model_version_status": [
                {
                    "version": "2",
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        },
    )


def test_a_tf1_model_is_served_as_by_tf_serving(half_plus_directory):
    path = "/v1/models/half_plus/versions/123"
    with serve(half_plus_directory, "half_plus", port=0, rest_port=0) as server:
        newest = predict(server, {"instances": [1.0, 2.0, 5.0]}, "/v1/models/half_plus")
        older = predict(server, {"instances": [1.0, 2.0, 5.0]}, path)
        status, document = ask(server, "GET", f"{path}/metadata")
    assert newest == (200, {"predictions": [3.5, 4.0, 5.5]})
    assert older == (200, {"predictions": [2.5, 3.0, 4.5]})
    assert status == 200

    def info(name):
        shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
        return {"dtype": "DT_FLOAT", "tensor_shape": shape, "name": f"{name}:0"}

    signature = {
        "inputs": {"x": info("x")},
        "outputs": {"y": info("y")},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    assert document == {
        "model_spec": {"name": "half_plus", "signature_name": "", "version": "123"},
        "metadata": {"signature_def": {"signature_def": {"serving_default": signature}}},
    }


def test_a_label_selects_a_version(model_directory, tmp_path):
    config = tmp_path / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{
          name: "elmo" base_path: "{model_directory}" model_platform: "tensorflow"
          model_version_policy {{ all {{}} }}
          version_labels {{ key: "stable" value: 1 }}
        }} }}"""
    )
    with serve(models_config=config, port=0, rest_port=0) as server:
        _, document = predict(server, {"inputs": ["a"]}, "/v1/models/elmo/labels/stable")
        assert document["outputs"]["elmo"][0][0][0] == 10
        answer = predict(server, {"inputs": ["a"]}, "/v1/models/elmo/labels/new")
        assert_refused(400, "Unrecognized servable version label: new", answer)


def test_metrics_count_requests(model_directory):
    with serve(model_directory, port=0, rest_port=0, metrics_path="/metrics") as server:
        predict(server, {"inputs": ["a b"]})
        predict(server, {"inputs": ["a b"]}, "/v1/models/some-other-name")
        _, headers, text = get(server, "/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    count = ":tensorflow:serving:request_count"
    assert f'{count}{{model_name="elmo",status="OK"}} 1.0' in text
    # Unknown names must not use memory.
    assert f'{count}{{model_name="",status="NOT_FOUND"}} 1.0' in text
    assert "some-other-name" not in text
    latency = ':tensorflow:serving:request_latency_count{API="Predict",entrypoint="REST",model_name'
    assert f'{latency}="elmo"}} 1.0' in text
    families = {one.name: one for one in text_string_to_metric_families(text)}
    loads = families[":tensorflow:cc:saved_model:load_attempt_count"].samples
    assert [(one.labels["status"], one.value) for one in loads] == [("success", 1.0)]
