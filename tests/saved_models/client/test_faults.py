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
JSON = {"Content-Type": "application/json"}


def failing(code, times, predict):
    """A method that fails `times` times; its attribute `calls` counts."""

    def method(request, context):
        method.calls += 1
        if method.calls <= times:
            context.abort(code, "not now")
        return predict(request)

    method.calls = 0
    return method


def failing_http(status, times, headers=None):
    def answer(method, path, headers_in, body):
        if path.endswith("/metadata"):
            return 501, JSON, b'{"error": "no metadata here"}'
        answer.calls += 1
        if answer.calls <= times:
            return status, {**JSON, **(headers or {})}, b'{"error": "not now"}'
        return 200, JSON, ANSWER

    answer.calls = 0
    return answer


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_requests_to_an_unavailable_server_are_retried(grpc_server, http_server, lengths, code):
    method, is_retried = failing(grpc.StatusCode[code], 2, lengths), code == "UNAVAILABLE"
    answer = failing_http(503 if is_retried else 429, 2)
    for address in (f"127.0.0.1:{grpc_server(method)}", f"http://127.0.0.1:{http_server(answer)}"):
        with Client(address) as client:
            if is_retried:  # large requests, too
                assert client.predict(["a" * 5_000_000])["elmo"].tolist() == [[[1.0]]]
            else:
                assert_refused(grpc.StatusCode[code], "not now", client.predict, ["a"])
    assert method.calls == answer.calls == (3 if is_retried else 1)


@pytest.mark.parametrize(
    ("retries", "calls"), [(0, 1), (1, 2), pytest.param(4, 5, marks=pytest.mark.more)]
)
def test_requests_fail_after_the_last_retry(grpc_server, http_server, lengths, retries, calls):
    method = failing(grpc.StatusCode.UNAVAILABLE, 99, lengths)
    with Client(f"127.0.0.1:{grpc_server(method)}", retries=retries) as client:
        message = "UNAVAILABLE: not now"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.predict, ["a"])
    assert method.calls == calls
    answer = failing_http(503, 99)
    with Client(f"http://127.0.0.1:{http_server(answer)}", retries=retries) as client:
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.predict, ["a"])
    assert answer.calls == calls


@pytest.mark.parametrize(
    ("status", "code"), [(401, "UNAUTHENTICATED"), (418, "UNKNOWN"), (500, "INTERNAL")]
)
def test_an_http_error_has_the_matching_grpc_code(http_server, status, code):
    answer = failing_http(status, 1)
    with Client(f"http://127.0.0.1:{http_server(answer)}") as client:
        assert_refused(grpc.StatusCode[code], f"{code}: not now", client.predict, ["a"])
    assert answer.calls == 1


def test_an_answer_above_grpcs_default_limit_is_received(grpc_server, response):
    vectors = np.random.default_rng(0).random((1, 700, 2048), np.float32)
    with Client(f"127.0.0.1:{grpc_server(lambda *request: response(elmo=vectors))}") as client:
        np.testing.assert_array_equal(client.predict(["a"])["elmo"], vectors)


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_server_that_starts_during_the_request_is_reached(
    grpc_server, http_server, lengths, scheme
):
    port = free_port()

    def start():
        time.sleep(0.3)
        if scheme:
            http_server(failing_http(503, 0), port=port)
        else:
            grpc_server(lengths, port=port)

    threading.Thread(target=start, daemon=True).start()
    with Client(f"{scheme}127.0.0.1:{port}") as client:
        assert client.predict(["a"])["elmo"].tolist() == [[[1.0]]]


def test_the_retry_after_header_is_respected(http_server):
    answer = failing_http(503, 1, {"Retry-After": "1"})
    with Client(f"http://127.0.0.1:{http_server(answer)}") as client:
        start = time.monotonic()
        client.predict(["a"])
    assert time.monotonic() - start >= 1


def test_a_retry_after_beyond_the_timeout_fails_at_once(http_server):
    answer = failing_http(503, 99, {"Retry-After": "30"})
    with Client(f"http://127.0.0.1:{http_server(answer)}", timeout=5) as client:
        start = time.monotonic()
        assert_refused(grpc.StatusCode.UNAVAILABLE, "not now", client.predict, ["a"])
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_an_unreachable_server_is_unavailable(scheme):
    address = f"{scheme}127.0.0.1:{free_port()}"
    with Client(address, retries=1) as client:
        message = (
            f"UNAVAILABLE: Cannot reach a model server at {address}: .*refused.* Is it running"
        )
        for function, arguments in ((client.predict, [["a"]]), (client.status, [])):
            assert_refused(grpc.StatusCode.UNAVAILABLE, message, function, *arguments)


def test_swapped_grpc_and_rest_ports_are_reported(server):
    with Client(f"127.0.0.1:{server.rest_port}", retries=0) as client:
        message = "and is this its gRPC port"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.status)
    with Client(f"http://127.0.0.1:{server.port}", retries=0) as client:
        message = "and is this its REST port"
        assert_refused(grpc.StatusCode.UNAVAILABLE, message, client.status)


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_server_that_takes_too_long_is_an_error(scheme):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"{scheme}127.0.0.1:{silent.getsockname()[1]}", timeout=0.1) as client,
    ):
        message = r"did not answer within 0\.1 s\. Send fewer sentences"
        assert_refused(grpc.StatusCode.DEADLINE_EXCEEDED, message, client.predict, ["a"])


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_the_timeout_applies_to_all_requests_together(grpc_server, http_server, lengths, scheme):
    def predict(request, context):
        time.sleep(0.2)
        return lengths(request)

    def answer(method, path, headers, body):
        time.sleep(0.2)
        return 200, JSON, ANSWER

    port = http_server(answer) if scheme else grpc_server(predict)
    with Client(f"{scheme}127.0.0.1:{port}", timeout=0.5, batch_size=1) as client:
        client.predict(["a"])
        start = time.monotonic()
        message = r"did not answer within 0\.5 s"
        code = grpc.StatusCode.DEADLINE_EXCEEDED
        assert_refused(code, message, client.predict, ["a"] * 40)
    assert time.monotonic() - start < 1.5


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
    port = http_server(lambda *request: (200, JSON, b"{}"))
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
    port = http_server(lambda method, *request: (200 if method == "POST" else 404, JSON, body))
    with Client(f"http://127.0.0.1:{port}") as client:
        answer = client.predict(["a"], outputs=())
        (row,) = client.stream(["a"], outputs="elmo")
    assert {name: array.dtype for name, array in answer.items()} == {
        "elmo": np.float32,
        "n": np.int64,
        "b": object,
        "t": object,
    }
    assert (answer["b"].tolist(), answer["t"].tolist()) == ([b"\xff"], ["é".encode()])
    assert row["elmo"].shape == (2, 1)


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_headers_are_sent_to_the_path_of_the_address(grpc_server, http_server, lengths, scheme):
    seen, paths = [], []

    def predict(request, context):
        seen.append(dict(context.invocation_metadata())["authorization"])
        return lengths(request)

    def answer(method, path, headers, body):
        seen.append(headers["authorization"])
        paths.append(path)
        return 200, JSON, ANSWER

    address = f"127.0.0.1:{grpc_server(predict)}"
    if scheme:
        address = f"http://127.0.0.1:{http_server(answer)}/nlp/"
    headers = {"Authorization": "Bearer key"}
    with Client(address, "my model", version=3, headers=headers) as client:
        client.predict(["a"])
    assert set(seen) == {"Bearer key"}
    assert paths[1:] == (["/nlp/v1/models/my%20model/versions/3:predict"] if scheme else [])
