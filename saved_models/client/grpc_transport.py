"""The way to a model server's gRPC."""

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

from elmo_tf.saved_models.client.calls import Call, Deadline, explained
from elmo_tf.saved_models.client.options import TransportOptions

# A request that is larger than this is sent only once.
_KEPT_FOR_RETRIES = 256 * 1024 * 1024  # bytes


class GrpcTransport:
    """Asks over one channel, which threads may share.

    Args:
        address: as the caller gave it, for errors.
        target: host:port, or another target of gRPC.
        is_secure: whether it is reached by TLS.
        options: retries, TLS, headers.
    """

    def __init__(self, address: str, target: str, is_secure: bool, options: TransportOptions):
        self._address = address
        self._headers = [(name.lower(), value) for name, value in options.headers.items()]
        if is_secure:
            credentials = grpc.ssl_channel_credentials(
                options.tls.root_certificates, options.tls.client_key, options.tls.client_chain
            )
            self._channel = grpc.secure_channel(target, credentials, _arguments(options.retries))
        else:
            self._channel = grpc.insecure_channel(target, _arguments(options.retries))
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        outputs: Mapping[str, meta_graph_pb2.TensorInfo],
        deadline: Deadline,
    ) -> Call[dict[str, np.ndarray]]:
        """Asks for predictions. `outputs`, those of the signature, are not needed here."""
        return self._start(self._predictions.Predict, request, deadline, _arrays)

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, deadline: Deadline
    ) -> Call[get_model_metadata_pb2.GetModelMetadataResponse]:
        """Asks for what a version can be asked."""
        return self._start(self._predictions.GetModelMetadata, request, deadline)

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest, deadline: Deadline
    ) -> Call[get_model_status_pb2.GetModelStatusResponse]:
        """Asks for the states of versions."""
        return self._start(self._models.GetModelStatus, request, deadline)

    def close(self) -> None:
        """Closes the channel. Calls under way fail."""
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
            code, details = error.code(), error.details()
            raise explained(code, details, self._address, "gRPC", self._deadline) from error
        return self._decode(response)


def _arrays(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    return {name: tf.make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}


def _arguments(retries: int) -> list[tuple[str, Any]]:
    """Options of a channel: no limit of size, and gRPC's own retries."""
    arguments = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # A server that has just been started again is found soon, while there are retries.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]
    if not retries:
        return [*arguments, ("grpc.enable_retries", 0)]
    policy = {
        "maxAttempts": 1 + retries,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,  # gRPC itself adds the jitter.
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    return [
        *arguments,
        ("grpc.enable_retries", 1),
        ("grpc.service_config", json.dumps(config)),
        ("grpc.per_rpc_retry_buffer_size", _KEPT_FOR_RETRIES),
    ]
