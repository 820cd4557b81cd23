"""The client's transport over gRPC."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from elmo_tf.saved_models.client.calls import Call, Deadline, TransportOptions, explained

_ARGUMENTS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect soon after a server restart, before the retries are used up.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.per_rpc_retry_buffer_size", 256 * 1024 * 1024),  # larger requests are not retried
)


class GrpcTransport:
    """Sends requests to a gRPC target over one channel. Thread-safe.

    `address` is the one given by the caller, for error messages.
    """

    def __init__(self, address: str, target: str, is_secure: bool, options: TransportOptions):
        self._address = address
        self._headers = [(name.lower(), value) for name, value in options.headers.items()]
        arguments = [*_ARGUMENTS, *_retries(options.retries)]
        if is_secure:
            credentials = grpc.ssl_channel_credentials(*options.pem_files())
            self._channel = grpc.secure_channel(target, credentials, arguments)
        else:
            self._channel = grpc.insecure_channel(target, arguments)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        outputs: Mapping[str, meta_graph_pb2.TensorInfo],
        deadline: Deadline,
    ) -> Call[dict[str, np.ndarray]]:
        """Requests predictions. `outputs` is only used over REST."""
        return self._start(self._predictions.Predict, request, deadline, _arrays)

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, deadline: Deadline
    ) -> Call[get_model_metadata_pb2.GetModelMetadataResponse]:
        """Requests the signatures of a version."""
        return self._start(self._predictions.GetModelMetadata, request, deadline)

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest, deadline: Deadline
    ) -> Call[get_model_status_pb2.GetModelStatusResponse]:
        """Requests the states of versions."""
        return self._start(self._models.GetModelStatus, request, deadline)

    def close(self) -> None:
        """Closes the channel. Calls in flight fail."""
        self._channel.close()

    def _start(
        self,
        method: grpc.UnaryUnaryMultiCallable,
        request: Message,
        deadline: Deadline,
        decode: Callable[[Any], Any] = lambda response: response,
    ) -> "_GrpcCall":
        future = method.future(request, timeout=deadline.left(), metadata=self._headers)
        return _GrpcCall(future, decode, self._address, deadline)


class _GrpcCall:
    def __init__(
        self, future: grpc.Future, decode: Callable[[Any], Any], address: str, deadline: Deadline
    ):
        self._future = future
        self._decode = decode
        self._address = address
        self._deadline = deadline
        self.done = future.done
        self.cancel = future.cancel

    def result(self) -> Any:
        try:
            response = self._future.result()
        except grpc.RpcError as error:
            raise explained(error, self._address, "gRPC", self._deadline) from error
        return self._decode(response)


def _arrays(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    return {name: tf.make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}


def _retries(retries: int) -> list[tuple[str, Any]]:
    """Returns the channel options for gRPC's retries."""
    if not retries:
        return [("grpc.enable_retries", 0)]
    policy = {
        "maxAttempts": 1 + retries,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,  # gRPC adds jitter
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    return [("grpc.enable_retries", 1), ("grpc.service_config", json.dumps(config))]
