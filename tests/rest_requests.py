"""Requests to the REST port of a server."""

import http.client
import json


def ask(server, method, path, body=None, headers=None):
    """Returns the status and the document of an answer."""
    if not isinstance(body, bytes | None):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def predict(server, body, path="/v1/models/elmo"):
    return ask(server, "POST", path + ":predict", body)


def assert_refused(status, message, answer):
    received, document = answer
    assert message in document["error"]
    assert received == status
