"""The client's transport over gRPC."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
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

from elmo_tf.saved_models.client.calls import Deadline, explained

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect soon after a server restart, before the retries are used up.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.per_rpc_retry_buffer_size", 256 * 1024 * 1024),  # larger requests are not retried
)


class GrpcTransport:
    """Sends requests to a gRPC target over one channel. Thread-safe.

    `address` is the one given by the caller, for error messages; `pem_contents` are those of the
    root certificates, client key and client certificate, `None` without TLS.
    """

    def __init__(
        self,
        address: str,
        target: str,
        retries: int,
        pem_contents: Sequence[bytes | None] | None,
        headers: Mapping[str, str],
    ):
        self._address = address
        self._headers = [(name.lower(), value) for name, value in headers.items()]
        options = [*_OPTIONS, *_retry_options(retries)]
        if pem_contents is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            credentials = grpc.ssl_channel_credentials(*pem_contents)
            self._channel = grpc.secure_channel(target, credentials, options)
        predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        models = model_service_pb2_grpc.ModelServiceStub(self._channel)
        self._methods = {
            predict_pb2.PredictRequest: predictions.Predict,
            get_model_metadata_pb2.GetModelMetadataRequest: predictions.GetModelMetadata,
            get_model_status_pb2.GetModelStatusRequest: models.GetModelStatus,
        }

    def start(
        self, request: Message, deadline: Deadline, outputs: Mapping[str, meta_graph_pb2.TensorInfo]
    ) -> "_GrpcCall":
        """Sends a request. Predictions return arrays by name; `outputs` is only used over REST."""
        method = self._methods[type(request)]
        future = method.future(request, timeout=deadline.left(), metadata=self._headers)
        return _GrpcCall(future, self._address, deadline)

    def close(self) -> None:
        """Closes the channel. Calls in flight fail."""
        self._channel.close()


class _GrpcCall:
    def __init__(self, future: grpc.Future, address: str, deadline: Deadline):
        self._future = future
        self._address = address
        self._deadline = deadline
        self.done = future.done
        self.cancel = future.cancel

    def result(self) -> Any:
        try:
            response = self._future.result()
        except grpc.RpcError as error:
            raise explained(error, self._address, "gRPC", self._deadline) from error
        if isinstance(response, predict_pb2.PredictResponse):
            return {name: tf.make_ndarray(response.outputs[name]) for name in response.outputs}
        return response


def _retry_options(retries: int) -> list[tuple[str, Any]]:
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
