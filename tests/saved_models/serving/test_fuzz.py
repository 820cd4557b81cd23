"""Requests that are wrong in every way are refused as they should be, and nobody else notices."""

import json
import socket
import threading
from pathlib import Path
from random import Random

import grpc
import numpy as np
import pytest
import tensorflow as tf
from strange_requests import mix, of_grpc, of_rest
from tensorflow_serving.apis import predict_pb2

from running_server import running


@pytest.fixture(scope="module")
def server(exported_bilm):
    with running(Path(exported_bilm).parent) as server:
        yield server


class GrpcClient:
    """Sends bytes as if they were protos."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(
            address,
            [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )

    def send(self, kind, content):
        """The status of the answer."""
        method = self._channel.unary_unary(kind.method)
        try:
            method(content, timeout=60)
        except grpc.RpcError as error:
            assert len(error.details()) < 2000
            return error.code()
        return grpc.StatusCode.OK

    def vectors(self):
        """What a request gets in which nothing is strange."""
        method = self._channel.unary_unary(of_grpc.PREDICT)
        answer = method(of_grpc.plain().SerializeToString(), timeout=60)
        outputs = predict_pb2.PredictResponse.FromString(answer).outputs
        return tf.make_ndarray(outputs["elmo"])


class RestClient:
    """Sends bytes as if they were HTTP."""

    def __init__(self, port):
        self._port = port

    def send(self, kind, content):
        """The status of the answer; `None` if there is none."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as connection:
            answer = b""
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                while received := connection.recv(2**16):
                    answer += received
            except ConnectionError:  # The server has said what it had to.
                pass
        if not answer:
            return None
        version, status, _ = answer.split(b" ", 2)
        assert version == b"HTTP/1.1"
        return int(status)
