"""Servers that are temporarily unavailable, too slow, or not model servers."""

import json
import socket
import threading
import time

import grpc
import numpy as np
import pytest

from elmo_tf.saved_models.client.client import Client, ServerError
from serving_requests import assert_refused, free_port

ANSWER = json.dumps({"outputs": [[[1.0]]]}).encode()
HTTP = {"OK": 200, "UNAUTHENTICATED": 401, "UNKNOWN": 418, "RESOURCE_EXHAUSTED": 429}
HTTP |= {"INTERNAL": 500, "UNAVAILABLE": 503}


@pytest.fixture
def start_server(grpc_server, http_server, lengths):
    """Starts a server whose predictions take a time, and fail a number of times with a code.

    Returns its port and the list of calls, with their headers and their path over REST. Over REST,
    `metadata_calls` has the requests of metadata, which are all refused.
    """

    def start(scheme, code="OK", times=0, seconds=0.0, port=0, **headers):
        calls, start.metadata_calls = [], []

        def is_failure(call):
            calls.append(call)
            time.sleep(seconds)
            return len(calls) <= times

        def predict(request, context):
            if is_failure(dict(context.invocation_metadata())):
                context.abort(grpc.StatusCode[code], "not now")
            return lengths(request)

        def answer(method, path, headers_in, body):
            call = {name.lower(): value for name, value in headers_in.items()} | {"": path}
            if path.endswith("/metadata"):
                start.metadata_calls.append(call)
                return 501, {}, b'{"error": "no metadata here"}'
            if is_failure(call):
                return HTTP[code], headers, b'{"error": "not now"}'
            return 200, {}, ANSWER

        port = http_server(answer, port=port) if scheme else grpc_server(predict, port=port)
        return port, calls

    return start


SCHEMES = pytest.mark.parametrize("scheme", ["", "http://"])


@SCHEMES
@pytest.mark.parametrize(
    ("code", "times", "retries", "num_calls"),
    [
        *(("UNAVAILABLE", 2, 4, 3), ("RESOURCE_EXHAUSTED", 2, 4, 1), ("INTERNAL", 1, 4, 1)),
        *(("UNAUTHENTICATED", 1, 4, 1), ("UNKNOWN", 1, 4, 1)),
        *(("UNAVAILABLE", 99, 0, 1), ("UNAVAILABLE", 99, 1, 2)),
        pytest.param("UNAVAILABLE", 99, 4, 5, marks=pytest.mark.more),
    ],
)
def test_requests_to_an_unavailable_server_are_retried(
    start_server, scheme, code, times, retries, num_calls
):
    port, calls = start_server(scheme, code, times)
    with Client(f"{scheme}127.0.0.1:{port}", retries=retries) as client:
        if num_calls > times:  # large requests are retried, too
            assert client.predict(["a" * 5_000_000])["elmo"].tolist() == [[[1.0]]]
        else:
            assert_refused(grpc.StatusCode[code], f"{code}: not now", client.predict, ["a"])
    assert len(calls) == num_calls


def test_an_answer_above_grpcs_default_limit_is_received(grpc_server, response):
    vectors = np.random.default_rng(0).random((1, 700, 2048), np.float32)
    with Client(f"127.0.0.1:{grpc_server(lambda *request: response(elmo=vectors))}") as client:
        np.testing.assert_array_equal(client.predict(["a"])["elmo"], vectors)


@SCHEMES
def test_a_server_that_starts_during_the_request_is_reached(start_server, scheme):
    port = free_port()
    timer = threading.Timer(0.3, start_server, [scheme], {"port": port})
    timer.start()
    with Client(f"{scheme}127.0.0.1:{port}") as client:
        assert client.predict(["a"])["elmo"].tolist() == [[[1.0]]]
    timer.join()


@pytest.mark.parametrize("seconds", [1, 30])
def test_the_retry_after_header_is_respected_within_the_timeout(start_server, seconds):
    port, _ = start_server("http://", "UNAVAILABLE", 1, **{"Retry-After": str(seconds)})
    start = time.monotonic()
    with Client(f"http://127.0.0.1:{port}", timeout=5) as client:
        if seconds > 5:
            assert_refused(grpc.StatusCode.UNAVAILABLE, "not now", client.predict, ["a"])
        else:
            client.predict(["a"])
    assert (seconds if seconds < 5 else 0) <= time.monotonic() - start < 5


@SCHEMES
def test_an_unreachable_server_is_unavailable(server, scheme):
    code = grpc.StatusCode.UNAVAILABLE
    address = f"{scheme}127.0.0.1:{free_port()}"
    message = f"UNAVAILABLE: Cannot reach a model server at {address}: .*refused.* Is it running"
    with Client(address, retries=1) as client:
        for function, arguments in ((client.predict, [["a"]]), (client.status, [])):
            assert_refused(code, message, function, *arguments)
    wrong = server.port if scheme else server.rest_port
    with Client(f"{scheme}127.0.0.1:{wrong}", retries=0) as client:
        message = f"and is this its {'REST' if scheme else 'gRPC'} port"
        assert_refused(code, message, client.status)


@SCHEMES
def test_the_timeout_applies_to_all_requests_together(start_server, scheme):
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    port, _ = start_server(scheme, seconds=0.1)
    with Client(f"{scheme}127.0.0.1:{port}", timeout=0.5, batch_size=1) as client:
        client.predict(["a"])
        start = time.monotonic()
        message = r"did not answer within 0\.5 s\. Send fewer sentences"
        assert_refused(code, message, client.predict, ["a"] * 80)
    assert time.monotonic() - start < 1.5
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"{scheme}127.0.0.1:{silent.getsockname()[1]}", timeout=0.1) as client,
    ):
        assert_refused(code, r"did not answer within 0\.1 s", client.predict, ["a"])


def test_a_slowly_sent_answer_exceeds_the_timeout():
    listener = socket.create_server(("127.0.0.1", 0))

    def trickle():
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            while True:
                connection.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            connection.close()

    threading.Thread(target=trickle, daemon=True).start()
    with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.4) as client:
        start = time.monotonic()
        assert_refused(grpc.StatusCode.DEADLINE_EXCEEDED, "did not answer", client.status)
    assert time.monotonic() - start < 1.2


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"<html>Welcome</html>", "INTERNAL: http.* does not answer like a model server"),
        (200, b"[1]", "does not answer like a model server: there is no key 'outputs'"),
        (302, b"<html>\nMoved </html>", "UNKNOWN: HTTP 302 Found: <html> Moved </html>"),
        (404, b'"lost"', 'NOT_FOUND: HTTP 404 Not Found: "lost"'),
    ],
)
def test_a_server_that_is_not_a_model_server_is_reported(http_server, status, body, message):
    port = http_server(lambda *request: (status, {}, body))
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ServerError, match=message):
        client.predict(["a"])


def test_missing_metadata_is_reported(http_server):
    port = http_server(lambda *request: (200, {}, b"{}"))
    with Client(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(ServerError, match="there is no key 'metadata'"):
            client.metadata()
        assert client.status() == {}


def test_answers_are_returned_unchanged_without_metadata(grpc_server, http_server, lengths):
    with Client(f"127.0.0.1:{grpc_server(lengths)}", batch_size=1) as client:
        answer = client.predict(["a", "b c"])
    np.testing.assert_array_equal(answer["elmo"], [[[1], [0]], [[1], [1]]])

    outputs = {"elmo": [[[1.0], [0.0]]], "n": [1], "b": [{"b64": "/w=="}], "t": ["é"]}
    body = json.dumps({"outputs": outputs}).encode()
    port = http_server(lambda method, *request: (200 if method == "POST" else 404, {}, body))
    with Client(f"http://127.0.0.1:{port}") as client:
        answer = client.predict(["a"], outputs=())
        (row,) = client.stream(["a"], outputs="elmo")
    dtypes = {name: array.dtype for name, array in answer.items()}
    assert dtypes == {"elmo": np.float32, "n": np.int64, "b": object, "t": object}
    assert (answer["b"].tolist(), answer["t"].tolist()) == ([b"\xff"], ["é".encode()])
    assert row["elmo"].shape == (2, 1)


@SCHEMES
def test_headers_are_sent_to_the_path_of_the_address(start_server, scheme):
    port, calls = start_server(scheme)
    address = f"{scheme}127.0.0.1:{port}{'/nlp/' if scheme else ''}"
    headers = {"Authorization": "Bearer key"}
    with Client(address, "my model", version=3, headers=headers) as client:
        client.predict(["a"])
    calls = start_server.metadata_calls + calls
    assert [call["authorization"] for call in calls] == ["Bearer key"] * (2 if scheme else 1)
    if scheme:
        path = "/nlp/v1/models/my%20model/versions/3"
        assert [call[""] for call in calls] == [f"{path}/metadata", f"{path}:predict"]
