import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.server.catalogue import Catalogue, config_of
from serving_requests import SENTENCES, model_spec, predict_request, states

TOKENS, LENGTHS = tf.make_tensor_proto([["a"]]), tf.make_tensor_proto([1])

UNPARSABLE = {
    "too few bytes": tensor_pb2.TensorProto(
        dtype=tf.float32.as_datatype_enum,
        tensor_shape=tf.TensorShape([2]).as_proto(),
        tensor_content=b"123",
    ),
    "too many values": tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape([1]).as_proto(),
        string_val=[b"a", b"b"],
    ),
    "no type": tensor_pb2.TensorProto(tensor_shape=tf.TensorShape([1]).as_proto()),
    "an open shape": tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum, tensor_shape=tf.TensorShape([None]).as_proto()
    ),
    "an unknown rank": tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum, tensor_shape=tf.TensorShape(None).as_proto()
    ),
    "more than fits in memory": tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape([2**20, 2**20]).as_proto(),
        string_val=[b"a"],
    ),
}


@pytest.fixture(scope="module")
def catalogue(model_directory):
    catalogue = Catalogue(config_of(model_directory, "elmo"))
    catalogue.load()
    yield catalogue
    catalogue.close()


def metadata_request(*fields, **spec):
    return get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=model_spec(**spec), metadata_field=fields
    )


def test_the_newest_version_answers_with_all_its_outputs(catalogue):
    response = catalogue.predict(predict_request())
    assert sorted(response.outputs) == ["default", "elmo", "sequence_len", "word_emb"]
    elmo = tf.make_ndarray(response.outputs["elmo"])
    lengths = np.array([[1, 2], [0, 0], [3, 0]], np.float32)
    np.testing.assert_allclose(elmo, 100 * lengths[..., None] * np.arange(1, 7))
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["sequence_len"]), [2, 0, 1])


def test_the_answer_names_model_version_and_signature(catalogue):
    spec = catalogue.predict(predict_request()).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("elmo", 2, "serving_default")


def test_an_older_version_answers_when_asked_for(catalogue):
    response = catalogue.predict(predict_request(version={"value": 1}, outputs=["elmo"]))
    assert response.model_spec.version.value == 1
    assert tf.make_ndarray(response.outputs["elmo"])[0, 0, 0] == 10


def test_only_the_outputs_in_the_filter_are_sent(catalogue):
    response = catalogue.predict(predict_request(outputs=["default", "word_emb"]))
    assert sorted(response.outputs) == ["default", "word_emb"]


def test_numbers_are_sent_in_the_field_of_their_type(catalogue):
    outputs = catalogue.predict(predict_request(outputs=["elmo", "sequence_len"])).outputs
    assert len(outputs["elmo"].float_val) == 3 * 2 * 6
    assert list(outputs["sequence_len"].int_val) == [2, 0, 1]


def test_every_type_is_sent(catalogue):
    inputs = {"number": tf.make_tensor_proto(1.5), "flags": tf.make_tensor_proto([True, False])}
    outputs = catalogue.predict(predict_request(inputs, signature="other_types")).outputs
    arrays = {name: tf.make_ndarray(proto).tolist() for name, proto in outputs.items()}
    assert arrays == {
        "scalar": 150.0,
        "half": [1.5, 1.5],
        "large": [2**40, 2**40],
        "flags": [False, True],
        "text": "Jürgen".encode(),
        "some_bytes": [b"\xff"],
    }


def test_no_sentences_give_no_vectors(catalogue):
    inputs = {"strings": tf.make_tensor_proto([], tf.string)}
    response = catalogue.predict(predict_request(inputs, outputs=["default"]))
    assert tf.make_ndarray(response.outputs["default"]).shape == (0, 6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"name": "bert"},
            tf.errors.NotFoundError,
            "Servable not found for request: Latest(bert)",
        ),
        (
            {"version": {"value": 5}},
            tf.errors.NotFoundError,
            "Servable not found for request: Specific(elmo, 5)",
        ),
        (
            {"name": ""},
            tf.errors.InvalidArgumentError,
            "ModelSpec has no name specified.",
        ),
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
            {"inputs": {"strings": tf.make_tensor_proto([["a"]])}},
            tf.errors.InvalidArgumentError,
            "Expects strings to have the shape (None,) but (1, 1) is provided",
        ),
        (
            {"inputs": {"strings": tf.make_tensor_proto("a bb")}},
            tf.errors.InvalidArgumentError,
            "Expects strings to have the shape (None,) but () is provided",
        ),
        (
            {
                "signature": "tokens",
                "inputs": {"tokens": tf.make_tensor_proto("a"), "sequence_len": LENGTHS},
            },
            tf.errors.InvalidArgumentError,
            "Expects tokens to have the shape (None, None) but () is provided",
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
def test_a_wrong_request_is_refused(catalogue, changes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        catalogue.predict(predict_request(**changes))


@pytest.mark.parametrize("proto", UNPARSABLE.values(), ids=UNPARSABLE)
def test_a_tensor_that_cannot_be_parsed_is_refused(catalogue, proto):
    with pytest.raises(tf.errors.InvalidArgumentError, match="tensor parsing error: strings"):
        catalogue.predict(predict_request({"strings": proto}))


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


def test_a_version_label_is_refused(catalogue):
    request = predict_request()
    request.model_spec.version_label = "stable"
    with pytest.raises(tf.errors.InvalidArgumentError, match="servable version label: stable"):
        catalogue.predict(request)


def test_an_error_inside_the_model_keeps_its_type_and_message(catalogue):
    inputs = {
        "tokens": tf.make_tensor_proto([["a", "b"]]),
        "sequence_len": tf.make_tensor_proto([3], tf.int32),
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than the sentence"):
        catalogue.predict(predict_request(inputs, signature="tokens"))


def test_metadata_describes_the_signatures(catalogue):
    response = catalogue.metadata(metadata_request("signature_def"))
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    inputs = signatures.signature_def["tokens"].inputs
    assert sorted(inputs) == ["sequence_len", "tokens"]
    assert inputs["sequence_len"].dtype == tf.int32.as_datatype_enum
    assert (response.model_spec.name, response.model_spec.version.value) == ("elmo", 2)


@pytest.mark.parametrize(
    ("fields", "name", "error", "message"),
    [
        ((), "elmo", tf.errors.InvalidArgumentError, "specify at least one metadata_field"),
        (("weights",), "elmo", tf.errors.InvalidArgumentError, "weights is not supported"),
        (("signature_def",), "bert", tf.errors.NotFoundError, r"for request: Latest\(bert\)"),
    ],
)
def test_metadata_that_is_not_there_is_refused(catalogue, fields, name, error, message):
    with pytest.raises(error, match=message):
        catalogue.metadata(metadata_request(*fields, name=name))


def test_status_tells_loaded_versions_from_those_that_wait(model_directory):
    catalogue = Catalogue(config_of(model_directory, "elmo"))
    catalogue.load()
    assert states(catalogue) == [(2, "AVAILABLE"), (1, "START")]
    catalogue.predict(predict_request(version={"value": 1}))
    assert states(catalogue, version={"value": 1}) == [(1, "AVAILABLE")]
    catalogue.close()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "bert"}, "Could not find any versions of model bert"),
        ({"version": {"value": 5}}, "Could not find version 5 of model elmo"),
    ],
)
def test_the_status_of_what_is_not_there_is_not_found(catalogue, spec, message):
    with pytest.raises(tf.errors.NotFoundError, match=message):
        states(catalogue, **spec)


def test_a_version_that_cannot_be_loaded_is_not_found(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    catalogue = Catalogue(config_of(tmp_path, "elmo"))
    catalogue.load()
    with pytest.raises(tf.errors.NotFoundError, match=r"for request: Specific\(elmo, 1\)"):
        catalogue.predict(predict_request(version={"value": 1}))
    assert catalogue.predict(predict_request()).outputs
    catalogue.close()


def test_a_closed_model_refuses_requests(model_directory):
    catalogue = Catalogue(config_of(model_directory, "elmo"))
    catalogue.load()
    catalogue.close()
    with pytest.raises(tf.errors.UnavailableError, match="The server is shutting down"):
        catalogue.predict(predict_request())


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing: no such folder. Expected a folder"):
        Catalogue(config_of(tmp_path / "missing", "elmo"))


def test_a_folder_without_versions_is_an_error(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(FileNotFoundError, match=r"it holds no version. Expected a folder"):
        Catalogue(config_of(tmp_path, "elmo"))


def test_a_folder_that_is_itself_a_version_is_an_error(model_directory):
    with pytest.raises(FileNotFoundError, match=r"2: it is itself one version.*folder above"):
        Catalogue(config_of(model_directory / "2", "elmo"))


def test_models_that_were_written_by_tensorflow_1_are_served(half_plus_directory):
    catalogue = Catalogue(config_of(half_plus_directory, "half_plus"))
    catalogue.load()
    x = tf.make_tensor_proto([1.0, 2.0, 5.0])
    for version, expected in ((None, [3.5, 4.0, 5.5]), ({"value": 123}, [2.5, 3.0, 4.5])):
        response = catalogue.predict(predict_request({"x": x}, name="half_plus", version=version))
        assert tf.make_ndarray(response.outputs["y"]).tolist() == expected
    assert states(catalogue, name="half_plus") == [(124, "AVAILABLE"), (123, "AVAILABLE")]
    catalogue.close()
