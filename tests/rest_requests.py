"""Requests to the REST port of a server."""

import http.client
import json


def ask(server, method, path, body=None, headers=None):
    """Returns the status and the document of an answer."""
    status, _, text = _answer(server, method, path, body, headers)
    return status, json.loads(text)


def get(server, path):
    """Returns the status, the headers and the text of an answer."""
    return _answer(server, "GET", path)


def _answer(server, method, path, body=None, headers=None):
    if not isinstance(body, bytes | None):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


def predict(server, body, path="/v1/models/elmo"):
    return ask(server, "POST", path + ":predict", body)


def assert_refused(status, message, answer):
    received, document = answer
    assert message in document["error"]
    assert received == status
