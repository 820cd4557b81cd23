"""Requests to the models of tests/saved_models/conftest.py, and their answers."""

import contextlib
import http.client
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from elmo_tf.saved_models.server.server import serve

SENTENCES = tf.make_tensor_proto(["a bb", "", "ccc"])


def predict_request(inputs=None, outputs=(), name="elmo", signature="", **spec):
    return predict_pb2.PredictRequest(
        model_spec={"name": name, "signature_name": signature, **spec},
        inputs={"strings": SENTENCES} if inputs is None else inputs,
        output_filter=outputs,
    )


def predict(channel, inputs=None, **spec):
    """Sends a prediction request over gRPC."""
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return stub.Predict(predict_request(inputs, **spec), timeout=10)


@contextlib.contextmanager
def serving(directory, **options):
    """Serves a folder on free ports; yields the server and a gRPC channel to it."""
    with (
        serve(directory, port=0, rest_port=0, **options) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield server, channel


def send(server, method, path, body=None, headers=None):
    """Sends a request to the REST port; returns status, headers and text of the answer."""
    if not isinstance(body, bytes | None):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


def predict_rest(server, body, path="/v1/models/elmo"):
    """Sends a prediction request to the REST port; returns status and document of the answer."""
    status, _, text = send(server, "POST", f"{path}:predict", body)
    return status, json.loads(text)


def outputs_over_rest(server, strings, path="/v1/models/elmo", signature=""):
    """Returns the outputs for `strings` as arrays, text as bytes."""
    body = {"signature_name": signature, "inputs": {"strings": strings}}
    status, document = predict_rest(server, body, path)
    assert status == 200, document
    arrays = {name: np.array(values) for name, values in document["outputs"].items()}
    return {
        name: np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array
        for name, array in arrays.items()
    }


def assert_refused(code, message, function, *args, **kwargs):
    """Checks the code of an error, and searches for a pattern in its text."""
    with pytest.raises(grpc.RpcError) as caught:
        function(*args, **kwargs)
    assert caught.value.code() == code
    assert re.search(message, f"{code.name}: {caught.value.details()}")


def assert_bad(answer, message, status=400):
    """Checks an error over REST, which contains a text."""
    assert message in answer[1]["error"]
    assert answer[0] == status


@contextlib.contextmanager
def asking(function, num_threads=2):
    """Calls a function in threads during a block, and checks that no call failed."""
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            function()

    with ThreadPoolExecutor(num_threads) as pool:
        calls = [pool.submit(ask) for _ in range(num_threads)]
        try:
            yield
        finally:
            stop.set()
    for call in calls:
        call.result()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
