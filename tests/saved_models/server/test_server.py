"""Starting and stopping a server, its ports, connections, page and command."""

import contextlib
import ctypes
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import grpc
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from elmo_tf.saved_models.server import rest_endpoint
from elmo_tf.saved_models.server.model import LoadedVersion
from elmo_tf.saved_models.server.server import serve
from serving_requests import (
    assert_bad,
    free_port,
    predict,
    predict_request,
    predict_rest,
    send,
    serving,
)

BODY = json.dumps({"inputs": ["a"]}).encode()
HEAD = b"POST /v1/models/elmo:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(
    BODY
)


@pytest.fixture
def slow_runs(monkeypatch):
    """Computations set the event `begun`, then wait for the event `release`, and are recorded."""
    begun, release, computed = threading.Event(), threading.Event(), []
    run = LoadedVersion.run

    def slow_run(self, call):
        begun.set()
        assert release.wait(10)
        computed.append(call.inputs["strings"].tolist())
        return run(self, call)

    monkeypatch.setattr(LoadedVersion, "run", slow_run)
    yield begun, release, computed
    release.set()


def connected(server):
    return socket.create_connection(("127.0.0.1", server.rest_port), timeout=10)


def assert_free(port):
    socket.create_server(("127.0.0.1", port)).close()


def test_health_watchers_learn_of_a_stop_and_do_not_delay_it(model_directory, slow_runs):
    begun, release, _ = slow_runs
    with serving(model_directory) as (server, channel), ThreadPoolExecutor(2) as pool:
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        answer = pool.submit(predict, channel)
        assert begun.wait(10)
        stopping = pool.submit(server.stop, grace=60)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        release.set()
        assert answer.result(10)
        stopping.result(10)


def test_serve_fails_if_the_newest_version_cannot_be_loaded(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    port = free_port()
    with pytest.raises(OSError, match=r"saved_model\.pb"):
        serve(tmp_path, port=0, rest_port=port)
    assert_free(port)


def test_a_busy_port_is_an_error_that_names_it(model_directory, server):
    other = free_port()
    for ports in ((server.port, other), (other, server.rest_port), (other, other)):
        with pytest.raises((OSError, RuntimeError), match=f"{ports[0]}|{ports[1]}"):
            serve(model_directory, port=ports[0], rest_port=ports[1])
    assert_free(other)


def test_impossible_ports_and_the_directory_of_one_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"between 0 and 65535\. Received: 70000, 0"):
        serve(tmp_path, port=70_000, rest_port=0)  # gRPC would take 4464
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ValueError, match=f"is one version. Pass {tmp_path.parent}."):
        serve(tmp_path, port=0, rest_port=0)


def test_stopping_frees_the_ports_and_may_be_repeated(model_directory):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    server = serve(model_directory, port=0, rest_port=0)
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    server.stop()
    server.stop()
    for port in (server.port, server.rest_port):
        assert_free(port)


@pytest.mark.parametrize("grace", [(), (0.1,)])  # the default is 30 s
@pytest.mark.parametrize("over", ["gRPC", "REST"])
def test_stopping_answers_running_requests_within_the_grace_period(
    model_directory, slow_runs, over, grace
):
    begun, release, _ = slow_runs

    def status():
        try:
            if over == "REST":
                return predict_rest(server, {"inputs": ["a"]})[0]
            predict(channel)
        except ConnectionRefusedError:
            return 503
        except grpc.RpcError as error:
            return 503 if error.code() == grpc.StatusCode.UNAVAILABLE else error.code()
        return 200

    with serving(model_directory) as (server, channel), ThreadPoolExecutor(2) as pool:
        answer = pool.submit(status)
        assert begun.wait(10)
        stopping = pool.submit(server.stop, *grace)
        if grace == (0.1,):
            assert answer.result(10) in (503, grpc.StatusCode.CANCELLED)
        else:
            with pytest.raises(TimeoutError):
                stopping.result(0.5)
            assert status() == 503
        release.set()
        stopping.result(10)
        if grace != (0.1,):
            assert answer.result(10) == 200


def test_stopping_answers_the_requests_received_before_and_closes_idle_connections(model_directory):
    server = serve(model_directory, port=0, rest_port=0)
    idle = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    idle.request("GET", "/v1/models/elmo")
    idle.getresponse().read()
    connections = []
    for _ in range(30):
        connections.append(connected(server))
        connections[-1].sendall(HEAD + b"\r\n" + BODY)
    begun = time.monotonic()
    server.stop(grace=60)
    assert time.monotonic() - begun < 10
    for connection in connections:
        with connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    idle.close()


def test_grpc_requests_received_while_python_is_busy_are_answered_during_a_stop(model_directory):
    with serving(model_directory) as (server, channel):
        predict(channel)
        method = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
        answers = [method.future(predict_request(), timeout=20) for _ in range(50)]
        ctypes.PyDLL(None).usleep(300_000)  # keeps Python's lock; gRPC receives without it
        server.stop()
        assert [answer.code() for answer in answers] == [grpc.StatusCode.OK] * 50


def test_half_sent_requests_do_not_block_others(model_directory):
    with serving(model_directory) as (server, _), contextlib.ExitStack() as stack:
        for part in (b"", HEAD, HEAD + b"\r\n", HEAD + b"\r\n{") * 5:
            stack.enter_context(connected(server)).sendall(part)
        assert predict_rest(server, {"inputs": ["a"]})[0] == 200


def test_connections_are_limited(model_directory, monkeypatch):
    monkeypatch.setattr(rest_endpoint, "_MAX_CONNECTIONS", 4)
    with serving(model_directory) as (server, _), contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(server))
        with connected(server) as connection:
            connection.sendall(HEAD + b"\r\n" + BODY)
            assert connection.recv(12) == b"HTTP/1.1 503"


def test_only_names_of_the_server_and_addresses_are_allowed_as_host(model_directory):
    allowed = ["LOCALHOST", "localhost:1", "10.0.0.7:8501", "[::1]:8501", socket.gethostname()]
    refused = ["evil.com", "localhost.evil.com", "10.0.0.7.evil.com:80", "[::1].evil.com"]
    names = {"allowed_hosts": ["elmo.org", "*.example.org"]}
    with serving(model_directory, **names) as (server, _):
        for host in (*allowed, "elmo.org", "a.example.org:80"):
            assert send(server, "GET", "/", headers={"Host": host})[0] == 200
        for host in (*refused, "elmo-org", "example.org"):
            status, _, text = send(server, "GET", "/v1/models/elmo", headers={"Host": host})
            assert_bad((status, json.loads(text)), f"The host {host} is not allowed", 403)
    with serving(model_directory, allowed_hosts="elmo.org") as (server, _):
        assert send(server, "GET", "/", headers={"Host": "e"})[0] == 403


def test_a_request_over_rest_whose_client_has_left_is_not_computed(model_directory, slow_runs):
    begun, release, computed = slow_runs
    with serving(model_directory) as (server, channel), ThreadPoolExecutor(1) as pool:
        first = pool.submit(predict, channel)
        assert begun.wait(10)
        with connected(server) as connection:
            connection.sendall(HEAD + b"\r\n" + BODY)
            time.sleep(0.5)
        send(server, "GET", "/v1/models/elmo")  # after it, the server knows that the client left
        release.set()
        assert first.result(10)
        assert predict(channel, {"strings": tf.make_tensor_proto(["last"])})
    assert [b"a"] not in computed
    assert len(computed) == 2


def test_the_process_ends_while_the_model_still_computes():
    code = (
        "import threading, time\n"
        "from elmo_tf.commands.serve import _end_after\n"
        "threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "_end_after(0.0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


FILES = resources.files("elmo_tf.saved_models.server").joinpath("page")


def test_the_page_is_served_file_by_file_and_refers_to_no_other_host(server):
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
    types["svg"] = "image/svg+xml"
    for file in FILES.iterdir():
        name = "" if file.name == "index.html" else file.name
        status, headers, text = send(server, "GET", f"/{name}")
        assert (status, text) == (200, file.read_text(encoding="utf-8"))
        assert headers["Content-Type"].partition(";")[0] == types[file.name.rpartition(".")[2]]
        text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|[\"'`(]//|@import", text)
    _, _, text = send(server, "GET", "/?from=mail")
    assert "Content-Security-Policy\" content=\"default-src 'self'" in text
    for path in ("/page/index.html", "/../server.py", "/%2e%2e/server.py", "/..%2fserver.py"):
        assert send(server, "GET", path)[0] == 404


STARTS = """
import multiprocessing, random, time
import elmo_tf.saved_models.server.server
from elmo_tf import cli

fork = multiprocessing.get_context("fork")
for _ in range(34):
    processes = [fork.Process(target=cli.run) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        time.sleep(random.uniform(0, 1))
        process.terminate()
    for process in processes:
        process.join(60)
        assert process.exitcode in (0, -15)
"""


@pytest.mark.slow
def test_200_servers_end_on_sigterm(model_directory):
    options = "serve", model_directory, "--port=0", "--rest-port=0", "--grace=2"
    subprocess.run([sys.executable, "-c", STARTS, *options], timeout=900, check=True)
