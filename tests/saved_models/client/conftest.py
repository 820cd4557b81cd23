"""Servers with configurable answers."""

from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from elmo_tf.saved_models import Client


@pytest.fixture(scope="session")
def address(server):
    """The address of the server of the small model."""
    return f"127.0.0.1:{server.port}"


@pytest.fixture(scope="session")
def client(address):
    with Client(address) as client:
        yield client


@pytest.fixture
def response():
    """`response(name=array, …)`, with numbers in `tensor_content`."""

    def build(**arrays):
        answer = predict_pb2.PredictResponse()
        for name, array in arrays.items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(np.asarray(array)))
        return answer

    return build


@pytest.fixture
def grpc_server():
    """`grpc_server(predict, metadata=None, port=0)` starts one; returns its port.

    A method that is not given is UNIMPLEMENTED.
    """
    servers = []

    def start(predict, metadata=None, port=0):
        methods = {"Predict": predict, "GetModelMetadata": metadata}
        methods = {name: staticmethod(method) for name, method in methods.items() if method}
        base = prediction_service_pb2_grpc.PredictionServiceServicer
        server = grpc.server(
            futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)]
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            type("Servicer", (base,), methods)(), server
        )
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        servers.append(server)
        return port

    yield start
    for server in servers:
        server.stop(0).wait()


@pytest.fixture
def lengths(response):
    """Answers with as many 1s for each sentence as it has tokens, and with `sequence_len`."""

    def predict(request, context=None):
        sentences = [text.split() for text in request.inputs["strings"].string_val]
        sequence_len = np.array([len(tokens) for tokens in sentences], np.int32)
        ones = np.arange(max(sequence_len, default=0)) < sequence_len[:, None]
        return response(elmo=ones.astype(np.float32)[..., None], sequence_len=sequence_len)

    return predict
