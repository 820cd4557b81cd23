import http.client
import json
import socket
import time

import pytest

from elmo_tf.saved_models.server.server import serve
from rest_requests import predict


def test_expect_100_continue_is_answered(server):
    body = json.dumps({"inputs": ["a"]})
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=10) as connection:
        head = f"POST /v1/models/elmo:predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(body.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "line",
    [b"\x16\x03\x01", b"GET", b"GET / HTTP/x", b"GET http://[ HTTP/1.1", b"POST http://[ HTTP/1.1"],
)
def test_an_invalid_request_line_gets_an_http_error(server, line):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=10) as connection:
        connection.sendall(line + b"\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_a_connection_is_kept_for_the_next_request(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    for number in range(3):
        if number:
            assert connection.sock is not None
        connection.request("POST", "/v1/models/elmo:predict", json.dumps({"inputs": ["a"]}))
        assert connection.getresponse().read()
    connection.request("GET", "/v1/models/elmo", headers={"Connection": "close"})
    response = connection.getresponse()
    assert response.headers["Connection"] == "close"
    response.read()
    assert connection.sock is None


def test_the_body_of_a_request_for_a_file_is_not_read_as_a_request(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    for _ in range(2):
        connection.request("GET", "/models.json", "GET / HTTP/1.1\r\n\r\n")
        response = connection.getresponse()
        assert json.loads(response.read())
        assert response.headers["Connection"] == "close"


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/page.js", "/models.json", "/monitoring/prometheus/metrics", "/none"),
        *("/v1/models/elmo", "/v1/models/elmo/versions/2/metadata", "/v1/models/none"),
    ],
)
def test_head_is_answered_as_get_without_a_body_on_a_kept_connection(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    answers = []
    for method in ("HEAD", "GET", "HEAD"):
        if answers:
            assert connection.sock is not None
        connection.request(method, path)
        response = connection.getresponse()
        headers = {name: value for name, value in response.getheaders() if name != "Date"}
        answers.append((response.status, headers))
        size = len(response.read())
        assert size == (0 if method == "HEAD" else int(headers["Content-Length"]))
    connection.close()
    assert answers[0] == answers[1] == answers[2]


def test_stopping_closes_idle_connections(model_directory):
    server = serve(model_directory, port=0, rest_port=0)
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    connection.request("GET", "/v1/models/elmo")
    connection.getresponse().read()
    begun = time.monotonic()
    server.stop(grace=20)
    assert time.monotonic() - begun < 10
    connection.close()


def test_stopping_answers_the_requests_received_before(model_directory):
    server = serve(model_directory, port=0, rest_port=0)
    body = json.dumps({"inputs": ["a"]}).encode()
    head = f"POST /v1/models/elmo:predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    connections = []
    for _ in range(30):
        connections.append(socket.create_connection(("127.0.0.1", server.rest_port), timeout=10))
        connections[-1].sendall(head.encode() + body)
    server.stop()
    for connection in connections:
        with connection:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_client_disconnect_does_not_stop_the_server(server):
    with socket.create_connection(("127.0.0.1", server.rest_port)) as connection:
        connection.sendall(b"POST /v1/models/elmo:predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    assert predict(server, {"inputs": ["a"]})[0] == 200
