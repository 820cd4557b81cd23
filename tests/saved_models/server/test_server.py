import re
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
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tensorflow_serving.apis import (
    classification_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from elmo_tf.saved_models import Client
from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING
from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.server import serve
from rest_requests import ask
from serving_requests import assert_refused, free_port, predict_request


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


@pytest.fixture
def slow_predictions(monkeypatch):
    """Predictions set the event `begun`, then wait for the event `release`."""
    begun, release = threading.Event(), threading.Event()
    predict = Catalogue.predict

    def slow_predict(self, *arguments, **named):
        begun.set()
        assert release.wait(10)
        return predict(self, *arguments, **named)

    monkeypatch.setattr(Catalogue, "predict", slow_predict)
    yield begun, release
    release.set()


def predict(channel, *sentences, **spec):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    strings = tf.make_tensor_proto(sentences or ["a bb"])
    return stub.Predict(predict_request({"strings": strings}, **spec), timeout=10)


def assert_free(port):
    socket.create_server(("127.0.0.1", port)).close()


def test_a_long_error_message_is_truncated(channel):
    name = "n" * 2000
    assert_refused(grpc.StatusCode.NOT_FOUND, "n...TRUNCATED", predict, channel, name=name)


def test_an_unexpected_exception_is_an_internal_error(channel, monkeypatch):
    def fail(self, *args):
        raise KeyError("lost")

    monkeypatch.setattr(Catalogue, "predict", fail)
    assert_refused(grpc.StatusCode.INTERNAL, "KeyError: 'lost'", predict, channel)
    monkeypatch.undo()
    assert predict(channel)


def test_an_unsupported_method_is_unimplemented(channel):
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = classification_pb2.ClassificationRequest()
    assert_refused(grpc.StatusCode.UNIMPLEMENTED, "", stub.Classify, request, timeout=10)


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"\x0a\x05abc"])
def test_unparsable_bytes_are_an_invalid_argument(channel, content):
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
        assert_refused(code, "larger than max", predict, channel, "x" * 10_000)
        assert predict(channel, "x" * 1000)


def test_health_checks_report_serving_until_the_server_stops(model_directory, slow_predictions):
    begun, release = slow_predictions
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
        pool.submit(predict, channel)
        assert begun.wait(10)
        stopping = pool.submit(server.stop)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        release.set()
        watched.cancel()
        stopping.result(10)


def test_health_watchers_do_not_delay_stopping(model_directory):
    server = serve(model_directory, port=0, rest_port=None)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        begun = time.monotonic()
        server.stop(grace=20)
        assert time.monotonic() - begun < 10


def test_reflection_lists_services_and_methods(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) >= {
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "grpc.health.v1.Health",
    }
    service = DescriptorPool(database).FindServiceByName("tensorflow.serving.PredictionService")
    assert "Predict" in {method.name for method in service.methods}


def test_a_new_configuration_is_applied(model_directory):
    request = model_management_pb2.ReloadConfigRequest()
    models = request.config.model_config_list.config
    models.add(name="renamed", base_path=str(model_directory))
    with (
        serve(model_directory, port=0, rest_port=None) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        reload = model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest
        assert reload(request, timeout=60).status.error_code == 0
        assert predict(channel, name="renamed")
        assert_refused(grpc.StatusCode.NOT_FOUND, "", predict, channel)


def test_a_directory_or_a_configuration_is_required(model_directory):
    with pytest.raises(TypeError, match="Expected either the directory of a model or models_con"):
        serve(port=0)


@pytest.mark.parametrize("batching", [DEFAULT_BATCHING, None])
def test_requests_in_parallel_get_their_own_answers(model_directory, batching):
    def ask_and_check(thread):
        with Client(f"127.0.0.1:{server.port}") as client:
            for number in range(15):
                sentences = ["x" * (thread + 1) + " " + "y" * (number + 1)] * (1 + number % 3)
                answer = client.predict(sentences, "word_emb")["word_emb"]
                assert answer[:, :, 0].tolist() == [[thread + 1, number + 1]] * len(sentences)
        return True

    with (
        serve(model_directory, port=0, rest_port=None, batching=batching) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        assert all(pool.map(ask_and_check, range(8)))


def test_serve_fails_if_the_newest_version_cannot_be_loaded(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    port = free_port()
    with pytest.raises(OSError, match=r"saved_model\.pb"):
        serve(tmp_path, port=0, rest_port=port)
    assert_free(port)


@pytest.mark.parametrize("ports", [{"port": 70000}, {"port": 0, "rest_port": -1}])
def test_an_invalid_port_is_an_error(model_directory, ports):
    with pytest.raises(ValueError, match=r"A port must be 0 … 65535.* Received: (70000|-1)"):
        serve(model_directory, **ports)


@pytest.mark.parametrize("name", ["port", "rest_port"])
def test_a_busy_port_is_an_error_that_names_it(model_directory, server, name):
    other = free_port()
    busy = getattr(server, name)
    expected = rf"port {busy}: Address already in use. Choose another port; 0 picks"
    with pytest.raises(OSError, match=expected):
        serve(model_directory, **{"port": other, "rest_port": other, name: busy})
    assert_free(other)


def test_the_same_port_for_grpc_and_rest_is_an_error(model_directory):
    port = free_port()
    with pytest.raises(OSError, match=rf"port {port}: it is used for both gRPC and REST. Ch"):
        serve(model_directory, port=port, rest_port=port)
    assert_free(port)


def test_the_ports_are_free_after_the_context(model_directory):
    with serve(model_directory, port=0, rest_port=0) as server:
        assert server.port != server.rest_port
    for port in (server.port, server.rest_port):
        assert_free(port)
    with serve(model_directory, port=0, rest_port=None) as server:
        assert server.rest_port is None


def test_stopping_twice_is_allowed_and_ends_wait(model_directory):
    server = serve(model_directory, port=0, rest_port=0)
    waiting = threading.Thread(target=server.wait, daemon=True)
    waiting.start()
    server.stop()
    server.stop()
    waiting.join(5)
    assert not waiting.is_alive()


@pytest.mark.parametrize("address", ["localhost:{0.port}", "http://localhost:{0.rest_port}"])
def test_stopping_answers_running_requests(model_directory, slow_predictions, address):
    begun, release = slow_predictions
    server = serve(model_directory, port=0, rest_port=0)
    with ThreadPoolExecutor(2) as pool, Client(address.format(server), retries=0) as client:
        answer = pool.submit(client.predict, ["a"])
        assert begun.wait(10)
        stopping = pool.submit(server.stop)
        with pytest.raises(TimeoutError):
            stopping.result(0.2)
        assert_refused(grpc.StatusCode.UNAVAILABLE, "", client.predict, ["a"])
        release.set()
        assert answer.result(10)["elmo"].shape == (1, 1, 6)
        stopping.result(10)


def test_requests_running_after_the_grace_period_are_cancelled(model_directory, slow_predictions):
    begun, _ = slow_predictions
    server = serve(model_directory, port=0, rest_port=None)
    with (
        ThreadPoolExecutor(1) as pool,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        answer = pool.submit(predict, channel)
        assert begun.wait(10)
        server.stop(grace=0.1)
        assert answer.exception(10).code() in (
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.UNAVAILABLE,
        )


def test_the_access_log_has_a_line_for_each_request(model_directory, caplog):
    logging.set_verbosity(logging.INFO)
    caplog.set_level("INFO")
    with serve(model_directory, port=0, rest_port=0, access_log=True) as server:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            predict(channel)
            assert_refused(grpc.StatusCode.NOT_FOUND, "", predict, channel, name="bert\nforged")
        for name in ("elmo", "bert"):
            ask(server, "GET", f"/v1/models/{name}")

    lines = [record.message for record in caplog.records if record.message.endswith(" ms")]
    for line, pattern in zip(
        lines,
        (
            r"ipv4:127\.0\.0\.1:\d+ gRPC Predict elmo OK [\d.]+ ms",
            r"ipv4:127\.0\.0\.1:\d+ gRPC Predict bert\\nforged NOT_FOUND [\d.]+ ms",
            r"127\.0\.0\.1 REST GET /v1/models/elmo 200 [\d.]+ ms",
            r"127\.0\.0\.1 REST GET /v1/models/bert 404 [\d.]+ ms",
        ),
        strict=True,
    ):
        assert re.fullmatch(pattern, line), line
