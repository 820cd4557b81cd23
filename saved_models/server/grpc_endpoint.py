"""TF Serving's gRPC interface, with gRPC's standard services for health checks and reflection."""

import contextlib
import functools
import importlib
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent import futures

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
    predict_pb2,
)

from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.errors import printable, shortened, status_code
from elmo_tf.saved_models.server.metrics import Metrics

_PREDICTIONS = "tensorflow.serving.PredictionService"
_MODELS = "tensorflow.serving.ModelService"
# The import registers descriptors for reflection; before 2.21 it then fails with protobuf 5.
for _module in ("prediction_service_pb2", "model_service_pb2"):
    with contextlib.suppress(AttributeError):
        importlib.import_module(f"tensorflow_serving.apis.{_module}")
_MAX_REQUESTS = 1024  # concurrent, one thread each; more are RESOURCE_EXHAUSTED
_HEALTH_SECONDS = 0.1  # to send the last health status before the streams end


class GrpcEndpoint:
    """Answers from construction to `stop()`. Other methods of TF Serving are UNIMPLEMENTED.

    Args:
        address: `"host:port"` to listen on; port 0 picks a free one, see the attribute `port`.
        access_log: whether to log a line per request.

    Raises:
        RuntimeError: the address is not available.
    """

    def __init__(
        self, catalogue: Catalogue, metrics: Metrics, address: str, access_log: bool = False
    ):
        self._catalogue = catalogue
        self._access_log = access_log
        self._metrics = metrics
        self._streams = _Streams()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="serve"),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", catalogue.limits.max_request_bytes),
                ("grpc.max_send_message_length", -1),
            ],
            maximum_concurrent_rpcs=_MAX_REQUESTS,
        )
        metadata_request = get_model_metadata_pb2.GetModelMetadataRequest
        status_request = get_model_status_pb2.GetModelStatusRequest
        services = {
            _PREDICTIONS: {
                "Predict": (self._predict, predict_pb2.PredictRequest),
                "GetModelMetadata": (_without_context(catalogue.metadata), metadata_request),
            },
            _MODELS: {
                "GetModelStatus": (_without_context(catalogue.status), status_request),
                "HandleReloadConfigRequest": (
                    _without_context(catalogue.reload),
                    model_management_pb2.ReloadConfigRequest,
                ),
            },
        }
        for service, methods in services.items():
            # Without a deserializer, which would hide why a request cannot be parsed.
            handlers = {
                name: grpc.unary_unary_rpc_method_handler(
                    functools.partial(self._answer, name, function, request_type)
                )
                for name, (function, request_type) in methods.items()
            }
            self._server.add_generic_rpc_handlers(
                [grpc.method_handlers_generic_handler(service, handlers)]
            )
        self._health = _Health(self._streams)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(self._streams, names), self._server
        )
        self.port = self._server.add_insecure_port(address)
        self._server.start()
        for name in ("", *services):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace: float) -> threading.Event:
        """Rejects new requests; the returned event is set when the running ones are answered.

        Args:
            grace: seconds until running requests are cancelled.
        """
        self._health.enter_graceful_shutdown()
        stopped = self._server.stop(grace)
        time.sleep(_HEALTH_SECONDS)
        self._streams.cancel()
        return stopped

    def _predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        return self._catalogue.predict(request, context.is_active)

    def _answer(
        self,
        method: str,
        function: Callable[[Message, grpc.ServicerContext], Message],
        request_type: type[Message],
        content: bytes,
        context: grpc.ServicerContext,
    ) -> bytes:
        start_time = time.monotonic()
        code, message, request, answer = grpc.StatusCode.OK, "", None, None
        try:
            request = request_type.FromString(content)
            if context.is_active():
                answer = function(request, context).SerializeToString()
            else:
                code, message = grpc.StatusCode.CANCELLED, "The client has disconnected."
        except DecodeError as error:
            code, message = grpc.StatusCode.INVALID_ARGUMENT, f"Cannot parse the request: {error}"
        except tf.errors.OpError as error:
            code, message = status_code(error), error.message
        except Exception as error:
            logging.exception("A request failed.")
            code, message = grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - start_time
        model = request.model_spec.name if hasattr(request, "model_spec") else ""
        if method == "Predict":
            # Unknown names share one label: otherwise clients could fill the memory.
            label = model if model in self._catalogue.names else ""
            self._metrics.count_request(label, code.name)
            if answer is not None:
                self._metrics.observe_latency(label, method, "GRPC", seconds)
        if self._access_log:
            logging.info(
                "%s gRPC %s %s %s %.1f ms",
                urllib.parse.unquote(context.peer()),
                method,
                printable(model) or "-",
                code.name,
                1000 * seconds,
            )
        if answer is None:
            context.abort(code, shortened(message))
        return answer


class _Streams:
    """The open streams, which last until the client closes them or the server stops."""

    def __init__(self):
        self._contexts: set[grpc.ServicerContext] = set()
        self._lock = threading.Lock()

    def add(self, context: grpc.ServicerContext) -> None:
        """Registers a stream until it ends."""
        with self._lock:
            self._contexts.add(context)
        # `add_callback` returns False if the stream has already ended.
        if not context.add_callback(lambda: self._discard(context)):
            self._discard(context)

    def _discard(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._contexts.discard(context)

    def cancel(self) -> None:
        """Cancels all streams."""
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


def _without_context(function: Callable) -> Callable:
    return lambda request, context: function(request)
