"""The arrow from `saved_models` to a model server, in protos: TF Serving's gRPC interface.

Beside its services there are those that gRPC's tools expect: health and reflection.
"""

import functools
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import grpc
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    predict_pb2,
    prediction_service_pb2,
)

from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.errors import shortened, status_code
from elmo_tf.saved_models.server.metrics import Metrics

_PREDICTIONS = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODELS = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
# Requests at the same time, beyond which they are refused as RESOURCE_EXHAUSTED. Each has a
# thread, which mostly waits. Some are kept for others than predictions, so that a busy server can
# say that it lives.
_MOST_REQUESTS = 1024
_MOST_PREDICTIONS = 960
_MOST_STREAMS = 32
_WORD_SECONDS = 0.1  # that it takes to tell those who watch the health that this is the end


class GrpcEndpoint:
    """Answers from the start to `stop()`. What it does not have is UNIMPLEMENTED.

    Args:
        catalogue: who answers.
        metrics: are told of each request.
        address: `"host:port"` to listen on; port 0 picks a free one.
        access_log: whether to log a line for each request.

    Attributes:
        port: that it listens on.

    Raises:
        RuntimeError: it cannot listen there.
    """

    def __init__(
        self, catalogue: Catalogue, metrics: Metrics, address: str, access_log: bool = False
    ):
        self._catalogue = catalogue
        self._access_log = access_log
        self._metrics = metrics
        self._predictions = threading.BoundedSemaphore(_MOST_PREDICTIONS)
        self._streams = _Streams()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_MOST_REQUESTS, thread_name_prefix="serve"),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", catalogue.limits.max_request_bytes),
                ("grpc.max_send_message_length", -1),
            ],
            maximum_concurrent_rpcs=_MOST_REQUESTS,
        )
        self._health = _Health(self._streams)
        self._server.add_generic_rpc_handlers(
            [
                self._service(
                    _PREDICTIONS,
                    Predict=(self._predict, predict_pb2.PredictRequest),
                    GetModelMetadata=(
                        _without_context(catalogue.metadata),
                        get_model_metadata_pb2.GetModelMetadataRequest,
                    ),
                ),
                self._service(
                    _MODELS,
                    GetModelStatus=(
                        _without_context(catalogue.status),
                        get_model_status_pb2.GetModelStatusRequest,
                    ),
                    HandleReloadConfigRequest=(
                        _without_context(catalogue.reload),
                        model_management_pb2.ReloadConfigRequest,
                    ),
                ),
            ]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (_PREDICTIONS, _MODELS, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(self._streams, names), self._server
        )
        self.port = self._server.add_insecure_port(address)
        self._server.start()
        for name in ("", _PREDICTIONS, _MODELS):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace: float) -> threading.Event:
        """Takes no more requests; the event is set when the running ones are answered.

        Args:
            grace: seconds after which those that still run are cancelled.
        """
        self._health.enter_graceful_shutdown()
        stopped = self._server.stop(grace)
        time.sleep(_WORD_SECONDS)
        self._streams.end()  # They would last as long as the client likes.
        return stopped

    def _service(
        self, name: str, **methods: tuple[Callable[[Any, Any], Message], type[Message]]
    ) -> grpc.GenericRpcHandler:
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                functools.partial(self._answer, method, function),
                request_deserializer=functools.partial(_parsed, request_type),
                response_serializer=_serialized,
            )
            for method, (function, request_type) in methods.items()
        }
        return grpc.method_handlers_generic_handler(name, handlers)

    def _predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> Message:
        if not self._predictions.acquire(blocking=False):
            message = f"More than {_MOST_PREDICTIONS} predictions at the same time"
            raise tf.errors.ResourceExhaustedError(None, None, message)
        try:
            return self._catalogue.predict(request, context.is_active)
        finally:
            self._predictions.release()

    def _answer(
        self,
        method: str,
        function: Callable[[Any, Any], Message],
        request: Message | DecodeError,
        context: grpc.ServicerContext,
    ) -> Message:
        begun = time.monotonic()
        code, message, answer = grpc.StatusCode.OK, "", None
        try:
            if isinstance(request, DecodeError):
                code, message = grpc.StatusCode.INVALID_ARGUMENT, f"Cannot parse it: {request}"
            elif not context.is_active():
                code, message = grpc.StatusCode.CANCELLED, "The caller has gone before its turn."
            else:
                answer = function(request, context)
        except tf.errors.OpError as error:
            code, message = status_code(error), error.message
        except Exception as error:
            logging.exception("A request failed.")
            code, message = grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}"
        if method == "Predict":
            name = _name_of(request, self._catalogue)
            self._metrics.count_request(name, code.name)
            if answer is not None:
                self._metrics.observe_latency(name, method, "GRPC", time.monotonic() - begun)
        if self._access_log:
            spec = getattr(request, "model_spec", None)
            logging.info(
                "%s gRPC %s %s %s %.1f ms",
                urllib.parse.unquote(context.peer()),
                method,
                shortened(spec.name) if spec is not None and spec.name else "-",
                code.name,
                1000 * (time.monotonic() - begun),
            )
        if answer is None:
            context.abort(code, shortened(message))
        return answer


class _Streams:
    """The calls that last as long as a client likes."""

    def __init__(self):
        self._contexts: set[grpc.ServicerContext] = set()
        self._lock = threading.Lock()

    def add(self, context: grpc.ServicerContext) -> None:
        """Notes one until it ends; it is refused if there are many."""
        with self._lock:
            has_room = len(self._contexts) < _MOST_STREAMS
            if has_room:
                self._contexts.add(context)
        # It has ended already if this is refused.
        if not has_room or not context.add_callback(lambda: self._discard(context)):
            self._discard(context)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many streams at the same time")

    def _discard(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._contexts.discard(context)

    def end(self) -> None:
        """Ends them all."""
        with self._lock:
            contexts = list(self._contexts)
        for context in contexts:
            context.cancel()


class _Health(health.HealthServicer):
    def __init__(self, streams: _Streams):
        super().__init__()
        self._streams = streams

    def Watch(self, request, context, *callback):  # noqa: N802 - gRPC's name
        self._streams.add(context)
        return super().Watch(request, context, *callback)


class _Reflection(reflection.ReflectionServicer):
    def __init__(self, streams: _Streams, names: Sequence[str]):
        super().__init__(names)
        self._streams = streams

    def ServerReflectionInfo(self, request_iterator, context):  # noqa: N802 - gRPC's name
        self._streams.add(context)
        yield from super().ServerReflectionInfo(request_iterator, context)


def _without_context(function: Callable[[Any], Message]) -> Callable[[Any, Any], Message]:
    return lambda request, context: function(request)


def _parsed(request_type: type[Message], content: bytes) -> Message | DecodeError:
    """The request, or what is wrong with it: gRPC itself would only say that it failed."""
    try:
        return request_type.FromString(content)
    except DecodeError as error:
        return error


def _serialized(answer: Message) -> bytes:
    return answer.SerializeToString()


def _name_of(request: Message | DecodeError, catalogue: Catalogue) -> str:
    """Its model, if there is such a one: names that do not exist must not fill memory."""
    if isinstance(request, DecodeError):
        return ""
    name = request.model_spec.name
    return name if name in catalogue.names else ""
