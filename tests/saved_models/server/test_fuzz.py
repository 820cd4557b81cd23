"""Requests that are wrong in every way are refused as they should be, and nobody else notices."""

import contextlib
import http.client
import json
import socket
import threading
import time
from pathlib import Path
from random import Random

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from running_server import running
from strange_requests import large_predictions, management, mixed, predictions, rest

KINDS = [*predictions.KINDS, *large_predictions.KINDS, *management.KINDS, *rest.KINDS]


@pytest.fixture(scope="module")
def server(exported_bilm):
    with pytest.MonkeyPatch.context() as patch:
        # What is large is given back at once, so that memory is what the server itself holds.
        patch.setenv("MALLOC_MMAP_THRESHOLD_", str(2**20))
        with running(Path(exported_bilm).parent) as server:
            yield server


class GrpcClient:
    """Sends bytes as if they were protos."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._channel.close()

    def status(self, method, content):
        """What the server says."""
        try:
            self._channel.unary_unary(method)(content, timeout=60)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        else:
            code, details = grpc.StatusCode.OK, ""
        assert len(details) < 2000
        return code

    def vectors(self):
        """What a request gets in which nothing is strange."""
        request = predictions.plain().SerializeToString()
        answer = self._channel.unary_unary(predictions.METHOD)(request, timeout=60)
        return tf.make_ndarray(predict_pb2.PredictResponse.FromString(answer).outputs["elmo"])


def rest_status(port, content):
    """What the server says to bytes that are sent as if they were HTTP; `None` if nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(OSError):  # It may refuse what it has not read to the end.
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
        is_head = content.startswith(b"HEAD ")
        response = http.client.HTTPResponse(connection, method="HEAD" if is_head else None)
        try:
            response.begin()
            body = response.read()
        except ConnectionError:
            return None
    if response.status >= 400 and not is_head:
        assert list(json.loads(body)) == ["error"]
    return response.status


class Neighbour(threading.Thread):
    """Asks what is right, all the time.

    Attributes:
        num_answers: that were as they should be.
        error: that ended it.
    """

    def __init__(self, address, expected):
        super().__init__()
        self.num_answers = 0
        self.error = None
        self._address = address
        self._expected = expected
        self._ended = threading.Event()

    def run(self):
        try:
            with GrpcClient(self._address) as client:
                while not self._ended.wait(0.02):
                    np.testing.assert_allclose(client.vectors(), self._expected, atol=1e-5)
                    self.num_answers += 1
        except Exception as error:
            self.error = error

    def stop(self):
        self._ended.set()
        self.join()


def send_all(server, client, kinds, size, rng):
    """Sends a request of each kind; returns those whose answers were not fitting."""
    unfitting = []
    for kind in kinds:
        request = kind.make(rng, size)
        if kind.method is None:
            status = rest_status(server.rest_port, request)
        else:
            status = client.status(kind.method, request)
        if status not in kind.statuses:
            unfitting.append((kind.name, status, request[:300]))
    return unfitting


def settled_memory(server):
    time.sleep(1)  # What was answered just now may still be held.
    return server.memory()


# The last number is the growth in MiB that passes. Measured: 28,000 small requests took memory from
# 644 (after 2000) to 661 MiB; rounds of all large ones left 645 … 904 MiB in no order, for what
# malloc keeps of 50 MB in small pieces differs. If those of a half were kept, it would be 1.7 GiB.
@pytest.mark.parametrize(
    ("num_requests", "num_large", "size", "most_growth"),
    [
        (300, 2, 10**6, 100),
        pytest.param(6000, 0, 0, 50, marks=pytest.mark.slow),
        pytest.param(10_000, 4, 50 * 10**6, 300, marks=pytest.mark.slow),
    ],
)
@pytest.mark.more
def test_what_is_strange_is_refused_and_nobody_else_notices(
    server, num_requests, num_large, size, most_growth
):
    rng = Random(num_requests)
    kinds = list(mixed(KINDS, num_requests, num_large, rng))
    unfitting, memory = [], []
    with GrpcClient(server.address) as client:
        neighbour = Neighbour(server.address, client.vectors())
        neighbour.start()
        try:
            for half in (kinds[: num_requests // 2], kinds[num_requests // 2 :]):
                unfitting += send_all(server, client, half, size, rng)
                memory.append(settled_memory(server))
        finally:
            neighbour.stop()
    assert len(kinds) == num_requests
    assert not unfitting
    assert neighbour.error is None
    assert neighbour.num_answers > 10
    assert memory[1] < memory[0] + most_growth
