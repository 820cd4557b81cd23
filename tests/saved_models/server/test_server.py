import contextlib
import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf
from absl import logging
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.server import serve


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


@pytest.fixture
def slow_predictions(monkeypatch):
    """Holds every prediction between the two events `begun` and `go_on`."""
    begun, go_on = threading.Event(), threading.Event()
    predict = Catalogue.predict

    def slow_predict(self, request, is_awaited=None):
        begun.set()
        assert go_on.wait(10)
        return predict(self, request)

    monkeypatch.setattr(Catalogue, "predict", slow_predict)
    yield begun, go_on
    go_on.set()


def request_of(sentences=("a bb", "", "ccc"), outputs=(), **model_spec):
    return predict_pb2.PredictRequest(
        model_spec={"name": "elmo"} | model_spec,
        inputs={"strings": tf.make_tensor_proto(sentences)},
        output_filter=outputs,
    )


def predict(channel, request):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return stub.Predict(request, timeout=10)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def assert_free(port):
    socket.create_server(("127.0.0.1", port)).close()


def assert_refused(code, message, function, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as caught:
        function(*args, **kwargs)
    assert message in caught.value.details()
    assert caught.value.code() == code


def test_predictions_are_answered(channel):
    response = predict(channel, request_of(outputs=["elmo"]))
    assert tf.make_ndarray(response.outputs["elmo"]).shape == (3, 2, 6)


def test_metadata_is_answered(channel):
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "elmo"}, metadata_field=["signature_def"]
    )
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    assert stub.GetModelMetadata(request, timeout=10).model_spec.version.value == 2


def test_the_status_is_answered(channel):
    request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "elmo"})
    response = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=10)
    assert [one.version for one in response.model_version_status] == [2, 1]


def test_a_request_larger_than_grpcs_usual_limit_is_answered(channel):
    response = predict(channel, request_of(["x" * 5_000_000], outputs=["word_emb"]))
    assert tf.make_ndarray(response.outputs["word_emb"])[0, 0, 0] == 5_000_000


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            {"name": "bert"},
            grpc.StatusCode.NOT_FOUND,
            "Servable not found for request: Latest(bert)",
        ),
        (
            {"signature_name": "images"},
            grpc.StatusCode.FAILED_PRECONDITION,
            'Serving signature key "images" not found.',
        ),
        (
            {"outputs": ["layers"]},
            grpc.StatusCode.INVALID_ARGUMENT,
            "output tensor alias not found in signature: layers",
        ),
        (
            {"sentences": "a scalar"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "Expects strings to have the shape (None,) but () is provided",
        ),
        (
            {"signature_name": "__saved_model_init_op"},
            grpc.StatusCode.INTERNAL,
            "Expected prediction signature method_name to be one of",
        ),
        (
            {"name": "n" * 2000},
            grpc.StatusCode.NOT_FOUND,
            "n...TRUNCATED",
        ),
    ],
)
def test_a_wrong_request_is_refused_with_tf_servings_code(channel, changes, code, message):
    assert_refused(code, message, predict, channel, request_of(**changes))


def test_a_failure_of_the_server_itself_is_internal_and_does_not_stop_it(channel, monkeypatch):
    def fail(self, *args):
        raise KeyError("lost")

    monkeypatch.setattr(Catalogue, "predict", fail)
    assert_refused(grpc.StatusCode.INTERNAL, "KeyError: 'lost'", predict, channel, request_of())
    monkeypatch.undo()
    assert predict(channel, request_of())


def test_a_method_that_the_server_does_not_have_is_unimplemented(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = classification_pb2.ClassificationRequest()
    assert_refused(grpc.StatusCode.UNIMPLEMENTED, "", stub.Classify, request, timeout=10)


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"\x0a\x05abc"])
def test_what_is_no_request_is_an_invalid_argument(channel, content):
    for method in (
        "PredictionService/Predict",
        "PredictionService/GetModelMetadata",
        "ModelService/GetModelStatus",
        "ModelService/HandleReloadConfigRequest",
    ):
        call = channel.unary_unary(f"/tensorflow.serving.{method}", _registered_method=True)
        code = grpc.StatusCode.INVALID_ARGUMENT
        assert_refused(code, "Cannot parse the request", call, content, timeout=10)


def test_a_request_larger_than_the_limit_is_refused(model_directory):
    limits = Limits(max_request_bytes=10_000)
    with (
        serve(model_directory, port=0, rest_port=None, limits=limits) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        assert_refused(code, "larger than max", predict, channel, request_of(["x" * 10_000]))
        assert predict(channel, request_of(["x" * 1000]))


def test_the_health_is_told_until_the_server_stops(model_directory, slow_predictions):
    begun, go_on = slow_predictions
    server = serve(model_directory, port=0, rest_port=None)
    with (
        ThreadPoolExecutor(2) as pool,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        watched = stub.Watch(health_pb2.HealthCheckRequest())
        for service in ("", "tensorflow.serving.PredictionService"):
            request = health_pb2.HealthCheckRequest(service=service)
            answer = stub.Check(request, timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        pool.submit(predict, channel, request_of())
        assert begun.wait(10)
        stopping = pool.submit(server.stop)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        go_on.set()
        watched.cancel()
        stopping.result(10)


def test_who_watches_does_not_keep_a_server_from_stopping(model_directory):
    server = serve(model_directory, port=0, rest_port=None)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        begun = time.monotonic()
        server.stop(grace=20)
        assert time.monotonic() - begun < 10


def test_many_who_ask_by_reflection_and_then_nothing_are_refused(model_directory):
    go_on = threading.Event()

    def silent():
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        go_on.wait(30)

    with (
        serve(model_directory, port=0, rest_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        streams = [stub.ServerReflectionInfo(silent()) for _ in range(40)]
        codes = []
        for stream in streams:
            with contextlib.suppress(grpc.RpcError):
                next(stream)
                continue
            codes.append(stream.code())
        assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * (40 - 32)
        assert predict(channel, request_of())
        go_on.set()


def test_reflection_tells_services_and_their_methods(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) >= {
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "grpc.health.v1.Health",
    }
    service = DescriptorPool(database).FindServiceByName("tensorflow.serving.PredictionService")
    assert "Predict" in {method.name for method in service.methods}


def test_a_new_configuration_is_taken_over(model_directory):
    request = model_management_pb2.ReloadConfigRequest()
    models = request.config.model_config_list.config
    models.add(name="renamed", base_path=str(model_directory))
    with (
        serve(model_directory, port=0, rest_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        reload = model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest
        assert reload(request, timeout=60).status.error_code == 0
        assert predict(channel, request_of(name="renamed"))
        assert_refused(grpc.StatusCode.NOT_FOUND, "", predict, channel, request_of())


def test_what_is_served_is_either_a_directory_or_a_configuration(model_directory):
    with pytest.raises(TypeError, match="Expected either the directory of a model or models_con"):
        serve(port=0)


@pytest.mark.parametrize("shares_batches", [True, False])
def test_requests_in_parallel_get_their_own_answers(model_directory, shares_batches):
    options = {} if shares_batches else {"batching": None}

    def ask_and_check(thread):
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            for number in range(50):
                sentences = ["x" * (thread + 1) + " " + "y" * (number + 1)] * (1 + number % 3)
                request = request_of(sentences, outputs=["word_emb"])
                answer = tf.make_ndarray(predict(channel, request).outputs["word_emb"])
                assert answer[:, :, 0].tolist() == [[thread + 1, number + 1]] * len(sentences)
        return True

    with (
        serve(model_directory, port=0, rest_port=None, **options) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        assert all(pool.map(ask_and_check, range(8)))


def test_a_newest_version_that_cannot_be_loaded_stops_the_start(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    port = free_port()
    with pytest.raises(OSError, match=r"saved_model\.pb"):
        serve(tmp_path, port=0, rest_port=port)
    assert_free(port)


@pytest.mark.parametrize("ports", [{"port": 70000}, {"port": 0, "rest_port": -1}])
def test_a_port_that_cannot_be_is_an_error(model_directory, ports):
    with pytest.raises(ValueError, match=r"A port must be 0 … 65535.* Received: (70000|-1)"):
        serve(model_directory, **ports)


def test_a_busy_grpc_port_is_an_error_that_names_it(model_directory, server):
    expected = rf"port {server.port}: Address already in use. Choose another port; 0 picks"
    with pytest.raises(OSError, match=expected):
        serve(model_directory, port=server.port, rest_port=None)


def test_a_busy_rest_port_is_an_error_and_releases_the_other(model_directory, server):
    port = free_port()
    expected = rf"port {server.rest_port}: Address already in use. Choose another port; 0 picks"
    with pytest.raises(OSError, match=expected):
        serve(model_directory, port=port, rest_port=server.rest_port)
    assert_free(port)


def test_one_port_for_both_is_an_error(model_directory):
    port = free_port()
    with pytest.raises(OSError, match=rf"port {port}: it is used for both gRPC and REST. Ch"):
        serve(model_directory, port=port, rest_port=port)
    assert_free(port)


def test_without_a_rest_port_there_is_no_rest(model_directory):
    with serve(model_directory, port=0, rest_port=None) as server:
        assert server.rest_port is None


def test_the_ports_are_free_after_the_context(model_directory):
    with serve(model_directory, port=0, rest_port=0) as server:
        assert server.port != server.rest_port
    for port in (server.port, server.rest_port):
        assert_free(port)


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


def test_the_access_log_has_a_line_for_each_request(half_plus_directory, caplog):
    logging.set_verbosity(logging.INFO)
    caplog.set_level("INFO")
    with serve(half_plus_directory, "half", 0, 0, access_log=True) as server:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            x = tf.make_tensor_proto([1.0])
            stub.Predict(predict_pb2.PredictRequest(model_spec={"name": "half"}, inputs={"x": x}))
            with pytest.raises(grpc.RpcError):
                stub.Predict(predict_pb2.PredictRequest(model_spec={"name": "whole"}))
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port)
        for path in ("/v1/models/half", "/v1/models/whole"):
            connection.request("GET", path)
            connection.getresponse().read()
        connection.close()

    lines = [record.message for record in caplog.records if record.message.endswith(" ms")]
    for line, words in zip(
        lines,
        (
            ("ipv4:127.0.0.1:", " gRPC Predict half OK "),
            ("ipv4:127.0.0.1:", " gRPC Predict whole NOT_FOUND "),
            ("127.0.0.1 REST GET /v1/models/half 200 ",),
            ("127.0.0.1 REST GET /v1/models/whole 404 ",),
        ),
        strict=True,
    ):
        assert all(word in line for word in words), line
