"""TF Serving's gRPC interface, with gRPC's standard service for health checks."""

import threading
import time
from collections.abc import Callable
from concurrent import futures

import grpc
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from elmo_tf.saved_models.server.batching import status_of
from elmo_tf.saved_models.server.model import ServedModel

_PREDICTIONS = "tensorflow.serving.PredictionService"
_MODELS = "tensorflow.serving.ModelService"
_MAX_REQUESTS = 1024  # concurrent, one thread each; more are RESOURCE_EXHAUSTED
_HEALTH_SECONDS = 0.1  # to send the last health status before the streams end


class GrpcEndpoint:
    """Answers from construction to `stop()`. Other methods of TF Serving are UNIMPLEMENTED.

    `address` is `"host:port"`; port 0 picks a free one, see the attribute `port`.
    """

    def __init__(self, model: ServedModel, address: str):
        self._model = model
        self._num_running = 0
        self._changed = threading.Condition()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="grpc"),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", model.limits.max_request_bytes),
                ("grpc.max_send_message_length", -1),
            ],
            maximum_concurrent_rpcs=_MAX_REQUESTS,
        )
        for service, request_type, function in (
            (_PREDICTIONS, PredictRequest, self._predict),
            (_PREDICTIONS, GetModelMetadataRequest, lambda r, _: model.metadata(r.model_spec)),
            (_MODELS, GetModelStatusRequest, lambda r, _: model.status(r.model_spec)),
        ):
            name = request_type.DESCRIPTOR.name.removesuffix("Request")
            handlers = {name: self._handler(request_type, function)}
            handler = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers([handler])
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = self._server.add_insecure_port(address)
        self._server.start()
        for service in ("", _PREDICTIONS, _MODELS):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace: float) -> None:
        """Rejects new requests and waits up to `grace` seconds for the running ones."""
        self._health.enter_graceful_shutdown()
        stopped = self._server.stop(grace)
        time.sleep(_HEALTH_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: not self._num_running, grace)
        self._server.stop(None)  # ends streams, which last until clients close them
        stopped.wait()

    def _predict(self, request: PredictRequest, context: grpc.ServicerContext) -> PredictResponse:
        spec, arrays = request.model_spec, futures.Future()
        if not context.add_callback(arrays.cancel):
            arrays.cancel()
        with self._model.counted(spec.name, "GRPC"), self._model.version(spec) as version:
            return version.answer(request, arrays)

    def _handler(
        self,
        request_type: type[Message],
        function: Callable[[Message, grpc.ServicerContext], Message],
    ) -> grpc.RpcMethodHandler:
        """Returns a handler without a deserializer, which would hide why parsing fails."""

        def answer(content: bytes, context: grpc.ServicerContext) -> bytes:
            with self._changed:
                self._num_running += 1
            # The request ends when its response is sent; False: it has already ended.
            if not context.add_callback(self._count_end):
                self._count_end()
            try:
                return function(request_type.FromString(content), context).SerializeToString()
            except DecodeError as error:
                status = grpc.StatusCode.INVALID_ARGUMENT, f"Cannot parse the request: {error}"
            except Exception as error:
                if not isinstance(error, tf.errors.OpError):
                    logging.exception("A request failed.")
                status = status_of(error)
            return context.abort(*status)

        return grpc.unary_unary_rpc_method_handler(answer)

    def _count_end(self) -> None:
        with self._changed:
            self._num_running -= 1
            self._changed.notify_all()
