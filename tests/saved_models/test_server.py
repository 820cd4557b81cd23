import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from elmo_tf.saved_models import server as server_module
from elmo_tf.saved_models.server import ModelVersions, serve
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
SENTENCES = tf.make_tensor_proto(["a bb", "", "ccc"])
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
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


@pytest.fixture
def slow_predictions(monkeypatch):
    """Holds every prediction between the two events `begun` and `go_on`."""
    begun, go_on = threading.Event(), threading.Event()
    predict = ModelVersions.predict

    def slow_predict(self, request):
        begun.set()
        assert go_on.wait(10)
        return predict(self, request)

    monkeypatch.setattr(ModelVersions, "predict", slow_predict)
    yield begun, go_on
    go_on.set()


def request_of(inputs=None, name="elmo", signature="", version=None, outputs=()):
    inputs = {"strings": SENTENCES} if inputs is None else inputs
    request = predict_pb2.PredictRequest(inputs=inputs, output_filter=outputs)
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    return request


def predict(channel, request):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return stub.Predict(request, timeout=10)


def metadata(channel, *fields, **model_spec):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    if model_spec:
        request.model_spec.CopyFrom(request_of(**model_spec).model_spec)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return stub.GetModelMetadata(request, timeout=10)


def states(channel, **model_spec):
    request = get_model_status_pb2.GetModelStatusRequest()
    if model_spec:
        request.model_spec.CopyFrom(request_of(**model_spec).model_spec)
    stub = model_service_pb2_grpc.ModelServiceStub(channel)
    response = stub.GetModelStatus(request, timeout=10)
    name_of = get_model_status_pb2.ModelVersionStatus.State.Name
    return [(one.version, name_of(one.state)) for one in response.model_version_status]


def assert_refused(code, message, function, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        function(*args, **kwargs)
    assert message in caught.value.details()
    assert caught.value.code() == code


def test_the_newest_version_answers_with_all_its_outputs(channel):
    response = predict(channel, request_of())
    assert sorted(response.outputs) == ["default", "elmo", "sequence_len", "word_emb"]
    elmo = tf.make_ndarray(response.outputs["elmo"])
    lengths = np.array([[1, 2], [0, 0], [3, 0]], np.float32)
    np.testing.assert_allclose(elmo, 100 * lengths[..., None] * np.arange(1, 8))
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["sequence_len"]), [2, 0, 1])


def test_the_answer_names_model_version_and_signature(channel):
    spec = predict(channel, request_of()).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("elmo", 2, "serving_default")


def test_an_older_version_answers_when_asked_for(channel):
    response = predict(channel, request_of(version=1, outputs=["elmo"]))
    assert response.model_spec.version.value == 1
    assert tf.make_ndarray(response.outputs["elmo"])[0, 0, 0] == 10


def test_only_the_outputs_in_the_filter_are_sent(channel):
    response = predict(channel, request_of(outputs=["default", "word_emb"]))
    assert sorted(response.outputs) == ["default", "word_emb"]


def test_numbers_are_sent_in_the_field_of_their_type(channel):
    outputs = predict(channel, request_of(outputs=["elmo", "sequence_len"])).outputs
    assert len(outputs["elmo"].float_val) == 3 * 2 * 7
    assert list(outputs["sequence_len"].int_val) == [2, 0, 1]
    assert not outputs["elmo"].tensor_content


def test_every_type_is_sent(channel):
    inputs = {"number": tf.make_tensor_proto(1.5), "flags": tf.make_tensor_proto([True, False])}
    outputs = predict(channel, request_of(inputs, signature="other_types")).outputs
    arrays = {name: tf.make_ndarray(proto).tolist() for name, proto in outputs.items()}
    assert arrays == {
        "scalar": 150.0,
        "half": [1.5, 1.5],
        "large": [2**40, 2**40],
        "flags": [False, True],
        "text": "Jürgen".encode(),
        "some_bytes": [b"\xff"],
    }


def test_no_sentences_give_no_vectors(channel):
    inputs = {"strings": tf.make_tensor_proto([], tf.string)}
    response = predict(channel, request_of(inputs, outputs=["default"]))
    assert tf.make_ndarray(response.outputs["default"]).shape == (0, 7)


def test_a_request_larger_than_grpcs_usual_limit_is_answered(channel):
    inputs = {"strings": tf.make_tensor_proto(["x" * 5_000_000])}
    response = predict(channel, request_of(inputs, outputs=["word_emb"]))
    assert tf.make_ndarray(response.outputs["word_emb"])[0, 0, 0] == 5_000_000


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            {"name": "bert"},
            NOT_FOUND,
            "Servable not found for request: Latest(bert)",
        ),
        (
            {"version": 5},
            NOT_FOUND,
            "Servable not found for request: Specific(elmo, 5)",
        ),
        (
            {"name": ""},
            INVALID_ARGUMENT,
            "ModelSpec has no name specified.",
        ),
        (
            {"signature": "images"},
            grpc.StatusCode.FAILED_PRECONDITION,
            'Serving signature key "images" not found.',
        ),
        (
            {"signature": "__saved_model_init_op"},
            grpc.StatusCode.INTERNAL,
            "Expected prediction signature method_name to be one of {tensorflow/serving/classify,",
        ),
        (
            {"inputs": {}},
            INVALID_ARGUMENT,
            "input size does not match signature: 0!=1 len({}) != len({strings}). "
            "Sent extra: {}. Missing but required: {strings}.",
        ),
        (
            {"inputs": {"strings": SENTENCES, "lines": SENTENCES}},
            INVALID_ARGUMENT,
            "input size does not match signature: 2!=1 len({lines,strings}) != len({strings}). "
            "Sent extra: {lines}. Missing but required: {}.",
        ),
        (
            {"inputs": {"lines": SENTENCES}},
            INVALID_ARGUMENT,
            "Signature input alias: strings(feed name: serving_default_strings:0) not found in "
            "request and no default value provided. Inputs expected to be in the request {lines}",
        ),
        (
            {"outputs": ["elmo", "layers"]},
            INVALID_ARGUMENT,
            "output tensor alias not found in signature: layers "
            "Outputs expected to be in the set {default,elmo,sequence_len,word_emb}.",
        ),
        (
            {"outputs": ["elmo", "elmo"]},
            INVALID_ARGUMENT,
            "duplicate output tensor alias: elmo",
        ),
        (
            {"inputs": {"strings": tf.make_tensor_proto([1, 2])}},
            INVALID_ARGUMENT,
            "Expects arg[0] to be string but int32 is provided",
        ),
    ],
)
def test_a_wrong_request_is_refused_as_tf_serving_does(channel, changes, code, message):
    assert_refused(code, message, predict, channel, request_of(**changes))


@pytest.mark.parametrize("proto", UNPARSABLE.values(), ids=UNPARSABLE)
def test_a_tensor_that_cannot_be_parsed_is_refused(channel, proto):
    request = request_of({"strings": proto})
    assert_refused(INVALID_ARGUMENT, "tensor parsing error: strings", predict, channel, request)


def test_a_request_without_a_model_is_refused(channel):
    request = predict_pb2.PredictRequest()
    assert_refused(INVALID_ARGUMENT, "Missing ModelSpec", predict, channel, request)
    assert_refused(INVALID_ARGUMENT, "Missing ModelSpec", metadata, channel, "signature_def")
    assert_refused(INVALID_ARGUMENT, "Missing ModelSpec", states, channel)


def test_a_version_label_is_refused(channel):
    request = request_of()
    request.model_spec.version_label = "stable"
    message = "Unrecognized servable version label: stable"
    assert_refused(INVALID_ARGUMENT, message, predict, channel, request)


def test_an_error_inside_the_model_keeps_its_code_and_message(channel):
    inputs = {
        "tokens": tf.make_tensor_proto([["a", "b"]]),
        "sequence_len": tf.make_tensor_proto([3], tf.int32),
    }
    message = "sequence_len is longer than the sentence"
    request = request_of(inputs, signature="tokens")
    assert_refused(INVALID_ARGUMENT, message, predict, channel, request)


def test_the_shape_of_an_input_is_left_to_the_model(channel):
    inputs = {
        "tokens": tf.make_tensor_proto([["a", "b"]]),
        "sequence_len": tf.make_tensor_proto([[1], [1]], tf.int32),
    }
    request = request_of(inputs, signature="tokens")
    with pytest.raises(grpc.RpcError) as caught:
        predict(channel, request)
    assert "Cannot feed" not in caught.value.details()
    assert caught.value.code() == INVALID_ARGUMENT


def test_a_long_error_message_is_cut(channel):
    request = request_of(name="n" * 2000)
    assert_refused(NOT_FOUND, "n...TRUNCATED", predict, channel, request)


def test_a_failure_of_the_server_itself_is_internal_and_does_not_stop_it(channel, monkeypatch):
    def fail(self, request):
        raise KeyError("lost")

    monkeypatch.setattr(server_module, "_array", fail)
    assert_refused(grpc.StatusCode.INTERNAL, "KeyError: 'lost'", predict, channel, request_of())
    monkeypatch.undo()
    assert predict(channel, request_of())


def test_a_request_whose_sender_has_gone_is_not_computed():
    class Gone:
        def is_active(self):
            return False

        def abort(self, code, message):
            raise ConnectionAbortedError(code, message)

    with pytest.raises(ConnectionAbortedError, match="The caller has gone"):
        server_module._answer(None, request_of(), Gone())


def test_a_method_that_the_server_does_not_have_is_unimplemented(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = classification_pb2.ClassificationRequest()
    assert_refused(grpc.StatusCode.UNIMPLEMENTED, "", stub.Classify, request, timeout=10)


def test_requests_in_parallel_get_their_own_answers(channel):
    def ask_and_check(thread):
        for number in range(50):
            sentences = ["x" * (thread + 1) + " " + "y" * (number + 1)] * (1 + number % 3)
            request = request_of({"strings": tf.make_tensor_proto(sentences)}, outputs=["word_emb"])
            answer = tf.make_ndarray(predict(channel, request).outputs["word_emb"])
            assert answer[:, :, 0].tolist() == [[thread + 1, number + 1]] * len(sentences)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask_and_check, range(8)))


def test_metadata_describes_the_signatures(channel):
    response = metadata(channel, "signature_def", name="elmo")
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    inputs = signatures.signature_def["tokens"].inputs
    assert sorted(inputs) == ["sequence_len", "tokens"]
    assert inputs["sequence_len"].dtype == tf.int32.as_datatype_enum
    assert (response.model_spec.name, response.model_spec.version.value) == ("elmo", 2)


@pytest.mark.parametrize(
    ("fields", "name", "code", "message"),
    [
        ((), "elmo", INVALID_ARGUMENT, "must specify at least one metadata_field"),
        (("weights",), "elmo", INVALID_ARGUMENT, "Metadata field weights is not supported"),
        (("signature_def",), "bert", NOT_FOUND, "Servable not found for request: Latest(bert)"),
    ],
)
def test_metadata_that_is_not_there_is_refused(channel, fields, name, code, message):
    assert_refused(code, message, metadata, channel, *fields, name=name)


def test_status_tells_loaded_versions_from_those_that_wait(model_directory):
    with (
        serve(model_directory, port=0, rest_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        assert states(channel, name="elmo") == [(2, "AVAILABLE"), (1, "START")]
        predict(channel, request_of(version=1))
        assert states(channel, name="elmo", version=1) == [(1, "AVAILABLE")]


def test_the_status_of_what_is_not_there_is_not_found(channel):
    message = "Could not find any versions of model bert"
    assert_refused(NOT_FOUND, message, states, channel, name="bert")
    message = "Could not find version 5 of model elmo"
    assert_refused(NOT_FOUND, message, states, channel, name="elmo", version=5)


def test_a_version_that_cannot_be_loaded_is_not_found(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    with (
        serve(tmp_path, port=0, rest_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        message = "Servable not found for request: Specific(elmo, 1)"
        assert_refused(NOT_FOUND, message, predict, channel, request_of(version=1))
        assert predict(channel, request_of())


def test_a_newest_version_that_cannot_be_loaded_stops_the_start(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match=r"saved_model\.pb"):
        serve(tmp_path, port=0, rest_port=port)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing: no such folder. Expected a folder"):
        serve(tmp_path / "missing")


def test_a_folder_without_versions_is_an_error(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(FileNotFoundError, match=r"it holds no version. Expected a folder"):
        serve(tmp_path)


def test_a_folder_that_is_itself_a_version_is_an_error(model_directory):
    with pytest.raises(FileNotFoundError, match=r"2: it is itself one version.*folder above"):
        serve(model_directory / "2")


@pytest.mark.parametrize("ports", [{"port": 70000}, {"port": 0, "rest_port": -1}])
def test_a_port_that_cannot_be_is_an_error(model_directory, ports):
    with pytest.raises(ValueError, match=r"A port is 0 … 65535.* but (70000|-1) was given"):
        serve(model_directory, **ports)


def test_a_busy_grpc_port_is_an_error_that_names_it(model_directory, server):
    expected = rf"port {server.port}: Address already in use. Choose another port; 0 picks"
    with pytest.raises(OSError, match=expected):
        serve(model_directory, port=server.port, rest_port=None)


def test_a_busy_rest_port_is_an_error_and_releases_the_other(model_directory, server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    expected = rf"port {server.rest_port}: Address already in use. Choose another port; 0 picks"
    with pytest.raises(OSError, match=expected):
        serve(model_directory, port=port, rest_port=server.rest_port)
    socket.create_server(("127.0.0.1", port)).close()


def test_one_port_for_both_is_an_error(model_directory):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match=rf"port {port}: the address is in use. Choose another"):
        serve(model_directory, port=port, rest_port=port)
    socket.create_server(("127.0.0.1", port)).close()


def test_without_a_rest_port_there_is_no_rest(model_directory):
    with serve(model_directory, port=0, rest_port=None) as server:
        assert server.rest_port is None


def test_the_ports_are_free_after_the_context(model_directory):
    with serve(model_directory, port=0, rest_port=0) as server:
        assert server.port != server.rest_port
    for port in (server.port, server.rest_port):
        socket.create_server(("127.0.0.1", port)).close()


def test_stopping_twice_is_harmless_and_ends_the_waiting(model_directory):
    server = serve(model_directory, port=0, rest_port=0)
    waiting = threading.Thread(target=server.wait, daemon=True)
    waiting.start()
    server.stop()
    server.stop()
    waiting.join(5)
    assert not waiting.is_alive()


def test_stopping_answers_the_requests_that_are_running(model_directory, slow_predictions):
    begun, go_on = slow_predictions
    server = serve(model_directory, port=0, rest_port=None)
    with (
        ThreadPoolExecutor(2) as pool,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        answer = pool.submit(predict, channel, request_of(outputs=["elmo"]))
        assert begun.wait(10)
        stopping = pool.submit(server.stop)
        with pytest.raises(TimeoutError):
            stopping.result(0.2)
        assert_refused(grpc.StatusCode.UNAVAILABLE, "", predict, channel, request_of())
        go_on.set()
        assert answer.result(10).outputs["elmo"].float_val
        stopping.result(10)


def test_requests_still_running_after_the_grace_are_cancelled(model_directory, slow_predictions):
    begun, _ = slow_predictions
    server = serve(model_directory, port=0, rest_port=None)
    with (
        ThreadPoolExecutor(1) as pool,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        answer = pool.submit(predict, channel, request_of())
        assert begun.wait(10)
        server.stop(grace=0.1)
        assert answer.exception(10).code() in (
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.UNAVAILABLE,
        )


def test_a_closed_model_refuses_requests(model_directory):
    versions = ModelVersions(model_directory, "elmo")
    versions.load_latest()
    versions.close()
    with pytest.raises(tf.errors.UnavailableError, match="The server is shutting down"):
        versions.predict(request_of())
