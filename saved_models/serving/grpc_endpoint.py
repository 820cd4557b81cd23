"""The arrow from `saved_models` to a model server, in protos: TF Serving's gRPC interface.

Beside its services there are those that gRPC's tools expect: health and reflection.
"""

import functools
import os
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    predict_pb2,
    prediction_service_pb2,
)

from elmo_tf.saved_models.serving.catalogue import Catalogue
from elmo_tf.saved_models.serving.errors import shortened, status_code
from elmo_tf.saved_models.serving.metrics import Metrics

_PREDICTIONS = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name
_MODELS = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
# Requests that wait for a batch hold a thread each, and take little else.
_THREADS_WITH_BATCHING = 256
# Requests at the same time, beyond which they are refused as RESOURCE_EXHAUSTED.
_MOST_REQUESTS = 2048


class GrpcEndpoint:
    """Answers from the start to `stop()`. What it does not have is UNIMPLEMENTED.

    Args:
        catalogue: who answers.
        metrics: are told of each request.
        address: `"host:port"` to listen on; port 0 picks a free one.
        shares_batches: whether requests wait for one another.

    Attributes:
        port: that it listens on.

    Raises:
        RuntimeError: it cannot listen there.
    """

    def __init__(self, catalogue: Catalogue, metrics: Metrics, address: str, shares_batches: bool):
        self._catalogue = catalogue
        self._metrics = metrics
        # Without batches as many threads as TF Serving has.
        num_threads = _THREADS_WITH_BATCHING if shares_batches else 4 * (os.cpu_count() or 1)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(num_threads, thread_name_prefix="serve"),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", catalogue.limits.max_request_bytes),
                ("grpc.max_send_message_length", -1),
            ],
            maximum_concurrent_rpcs=_MOST_REQUESTS,
        )
        self._health = health.HealthServicer()
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
        reflection.enable_server_reflection(names, self._server)
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
        return self._server.stop(grace)

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
        return self._catalogue.predict(request, context.is_active)

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
        if answer is None:
            context.abort(code, shortened(message))
        return answer


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
