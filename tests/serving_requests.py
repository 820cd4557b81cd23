"""Requests to the models of tests/saved_models/conftest.py."""

import re
import socket

import grpc
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2

SENTENCES = tf.make_tensor_proto(["a bb", "", "ccc"])


def model_spec(name="elmo", signature="", version=None):
    spec = {"name": name, "signature_name": signature}
    return spec if version is None else spec | {"version": version}


def infos(**kinds):
    """The description of tensors in a signature, by their types and shapes."""
    return {
        name: meta_graph_pb2.TensorInfo(
            dtype=tf.as_dtype(dtype).as_datatype_enum, tensor_shape=tf.TensorShape(shape).as_proto()
        )
        for name, (dtype, shape) in kinds.items()
    }


def predict_request(inputs=None, outputs=(), **spec):
    inputs = {"strings": SENTENCES} if inputs is None else inputs
    return predict_pb2.PredictRequest(
        model_spec=model_spec(**spec), inputs=inputs, output_filter=outputs
    )


def states(catalogue, **spec):
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=model_spec(**spec))
    name_of = get_model_status_pb2.ModelVersionStatus.State.Name
    return [
        (one.version, name_of(one.state)) for one in catalogue.status(request).model_version_status
    ]


def assert_refused(code, message, function, *args, **kwargs):
    """Checks the code of an error, and searches for a pattern in its text."""
    with pytest.raises(grpc.RpcError) as caught:
        function(*args, **kwargs)
    assert caught.value.code() == code
    assert re.search(message, f"{code.name}: {caught.value.details()}")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
