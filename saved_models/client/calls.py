"""Calls to a server over gRPC: errors, deadlines, and several calls in flight."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

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

T = TypeVar("T")
OutputInfos = Mapping[str, meta_graph_pb2.TensorInfo]  # the outputs of a signature
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect soon after a server restart, before the retries are used up.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.per_rpc_retry_buffer_size", 256 * 1024 * 1024),  # larger requests are not retried
)
_RETRY_POLICY = {
    "initialBackoff": "0.2s",
    "maxBackoff": "5s",
    "backoffMultiplier": 2,  # gRPC adds jitter
    "retryableStatusCodes": ["UNAVAILABLE"],
}


class ServerError(grpc.RpcError):
    """The server is unreachable, has rejected the request, failed, or exceeded the timeout."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Returns the status code, such as `grpc.StatusCode.NOT_FOUND` for an unknown model."""
        return self._code

    def details(self) -> str:
        """Returns the error message of the server."""
        return self._details


class Deadline:
    """The deadline of a call and its retries, `timeout` seconds from now; `None` means never."""

    def __init__(self, timeout: float | None):
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Returns the remaining seconds, more than 0; `None` means no deadline."""
        return None if self._end is None else max(1e-6, self._end - time.monotonic())


def explained(error: grpc.RpcError, address: str, port_of: str, deadline: Deadline) -> ServerError:
    """Returns an error whose message names the likely remedy; `port_of` is "gRPC" or "REST"."""
    code, details = error.code(), error.details()
    of_connection = ("connect", "http", "socket", "name resol")  # not of an overloaded server
    if code == grpc.StatusCode.UNAVAILABLE and any(w in details.lower() for w in of_connection):
        details = (
            f"Cannot reach a model server at {address}: {details}. Is it running, "
            f"and is this its {port_of} port?"
        )
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED and deadline.timeout is not None:
        details = (
            f"{address} did not answer within {deadline.timeout} s. Send fewer sentences "
            "per call, or increase the timeout."
        )
    return ServerError(code, details)


class Calls:
    """The calls of one prediction: started in order, several in flight, cancelled together.

    A call has the methods `done()`, `cancel()` and `result()`, which raises `ServerError`.
    """

    def __init__(self):
        self._pending: deque[tuple[Any, T]] = deque()
        self._is_cancelled = False
        self._lock = threading.Lock()  # guards the above

    def responses(
        self, batches: Iterable[T], start: Callable[[T], Any], in_flight: int
    ) -> Iterator[tuple[Any, T]]:
        """Starts a call for each batch and yields the responses in order, with their batches.

        At most `in_flight` calls are in flight. A batch is consumed when its call is started:
        `batches` may be infinite. Closing the iterator cancels the unfinished calls.
        """
        try:
            for batch in batches:
                with self._lock:
                    if self._is_cancelled:
                        return
                    self._pending.append((start(batch), batch))
                yield from self._results(in_flight)
            yield from self._results(0)
        finally:
            self.cancel()

    def _results(self, in_flight: int) -> Iterator[tuple[Any, T]]:
        """Yields results until the next is unfinished and less than `in_flight` are pending."""
        while self._pending:
            call, batch = self._pending[0]
            if len(self._pending) < in_flight and not call.done():
                return
            yield call.result(), batch
            self._pending.popleft()

    def cancel(self) -> None:
        """Cancels the unfinished calls and starts no more. Thread-safe."""
        with self._lock:
            self._is_cancelled = True
            for call, _ in list(self._pending):
                call.cancel()


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
        options = [*_OPTIONS, ("grpc.enable_retries", int(retries > 0))]
        if retries:
            policy = {**_RETRY_POLICY, "maxAttempts": 1 + retries}
            config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
            options.append(("grpc.service_config", json.dumps(config)))
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

    def start(self, request: Message, deadline: Deadline, outputs: OutputInfos) -> "_GrpcCall":
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
