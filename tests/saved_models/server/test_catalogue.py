import re

import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from elmo_tf.saved_models.server.catalogue import Catalogue, config_of
from serving_requests import SENTENCES, model_spec, predict_request, states

TOKENS = tf.make_tensor_proto([["a"]])


@pytest.fixture(scope="module")
def catalogue(model_directory):
    catalogue = Catalogue(config_of(model_directory, "elmo"))
    catalogue.load()
    yield catalogue
    catalogue.close()


def test_the_answer_names_model_version_and_signature(catalogue):
    spec = catalogue.predict(predict_request()).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("elmo", 2, "serving_default")


def test_only_the_outputs_in_the_filter_are_sent(catalogue):
    response = catalogue.predict(predict_request(outputs=["default", "word_emb"]))
    assert sorted(response.outputs) == ["default", "word_emb"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "bert"}, tf.errors.NotFoundError, "Servable not found for request: Latest(bert)"),
        (
            {"version": {"value": 5}},
            tf.errors.NotFoundError,
            "Servable not found for request: Specific(elmo, 5)",
        ),
        ({"name": ""}, tf.errors.InvalidArgumentError, "ModelSpec has no name specified."),
        (
            {"signature": "images"},
            tf.errors.FailedPreconditionError,
            'Serving signature key "images" not found.',
        ),
        (
            {"signature": "__saved_model_init_op"},
            tf.errors.InternalError,
            "Expected prediction signature method_name to be one of {tensorflow/serving/classify,",
        ),
        (
            {"inputs": {}},
            tf.errors.InvalidArgumentError,
            "inputs do not match signature: {} != {strings}. "
            "Sent extra: {}. Missing but required: {strings}.",
        ),
        (
            {"inputs": {"strings": SENTENCES, "lines": SENTENCES}},
            tf.errors.InvalidArgumentError,
            "inputs do not match signature: {lines,strings} != {strings}. "
            "Sent extra: {lines}. Missing but required: {}.",
        ),
        (
            {"outputs": ["elmo", "layers"]},
            tf.errors.InvalidArgumentError,
            "output tensor alias not found in signature: layers "
            "Outputs expected to be in the set {default,elmo,sequence_len,word_emb}.",
        ),
        (
            {"outputs": ["elmo", "elmo"]},
            tf.errors.InvalidArgumentError,
            "duplicate output tensor alias: elmo",
        ),
        (
            {"inputs": {"strings": tf.make_tensor_proto([1, 2])}},
            tf.errors.InvalidArgumentError,
            "Expects strings to be string but int32 is provided",
        ),
        (
            {"inputs": {"strings": tensor_pb2.TensorProto(string_val=[b"a"])}},
            tf.errors.InvalidArgumentError,
            "tensor parsing error: strings",
        ),
        (
            {"inputs": {"strings": tf.make_tensor_proto([["a"]])}},
            tf.errors.InvalidArgumentError,
            "Expects strings to have the shape (None,) but (1, 1) is provided",
        ),
        (
            {
                "signature": "tokens",
                "inputs": {"tokens": TOKENS, "sequence_len": tf.make_tensor_proto(1)},
            },
            tf.errors.InvalidArgumentError,
            "Expects sequence_len to have the shape (None,) but () is provided",
        ),
    ],
)
def test_an_invalid_request_is_refused(catalogue, changes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        catalogue.predict(predict_request(**changes))


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("predict", predict_pb2.PredictRequest),
        ("metadata", get_model_metadata_pb2.GetModelMetadataRequest),
        ("status", get_model_status_pb2.GetModelStatusRequest),
    ],
)
def test_a_request_without_a_model_is_refused(catalogue, method, request_type):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Missing ModelSpec"):
        getattr(catalogue, method)(request_type())


@pytest.mark.parametrize(
    ("fields", "message"),
    [((), "specify at least one metadata_field"), (("weights",), "weights is not supported")],
)
def test_missing_or_unknown_metadata_fields_are_refused(catalogue, fields, message):
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=model_spec(), metadata_field=fields
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        catalogue.metadata(request)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "bert"}, "Could not find any versions of model bert"),
        ({"version": {"value": 5}}, "Could not find version 5 of model elmo"),
    ],
)
def test_the_status_of_an_unknown_model_or_version_is_not_found(catalogue, spec, message):
    with pytest.raises(tf.errors.NotFoundError, match=message):
        states(catalogue, **spec)


def test_a_folder_without_versions_is_an_error(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(FileNotFoundError, match=r"it holds no version. Expected a folder"):
        Catalogue(config_of(tmp_path, "elmo"))
    with pytest.raises(FileNotFoundError, match=r"missing: no such folder. Expected a folder"):
        Catalogue(config_of(tmp_path / "missing", "elmo"))


def test_a_folder_that_is_itself_a_version_is_an_error(model_directory):
    with pytest.raises(FileNotFoundError, match=r"2: it is a single version.*parent folder"):
        Catalogue(config_of(model_directory / "2", "elmo"))
