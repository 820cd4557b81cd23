"""The client's transport over REST."""

import json
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import grpc
import numpy as np
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.client.calls import Call, Deadline, ServerError, explained
from elmo_tf.saved_models.client.http_requests import HttpRequests
from elmo_tf.saved_models.client.options import TransportOptions
from elmo_tf.saved_models.client.rest_tensors import answer_arrays, request_body


class RestTransport:
    """Sends requests over a connection pool, each in its own thread.

    `address` is the one given by the caller, for error messages; `url` excludes `/v1`.
    """

    def __init__(self, address: str, url: str, options: TransportOptions):
        self._address = address
        self._url = url
        self._http = HttpRequests(options)

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        outputs: Mapping[str, meta_graph_pb2.TensorInfo],
        deadline: Deadline,
    ) -> Call[dict[str, np.ndarray]]:
        """Requests predictions. `outputs` are those of the signature, empty if unknown."""

        def decode(document: Any) -> dict[str, np.ndarray]:
            try:
                return answer_arrays(document, list(request.output_filter), outputs)
            except KeyError as error:
                raise ServerError(grpc.StatusCode.INVALID_ARGUMENT, error.args[0]) from error

        path = f"{_path(request.model_spec)}:predict"
        return self._start("POST", path, deadline, decode, lambda: request_body(request))

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, deadline: Deadline
    ) -> Call[get_model_metadata_pb2.GetModelMetadataResponse]:
        """Requests the signatures of a version."""
        return self._start("GET", f"{_path(request.model_spec)}/metadata", deadline, _metadata)

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest, deadline: Deadline
    ) -> Call[get_model_status_pb2.GetModelStatusResponse]:
        """Requests the states of versions."""
        return self._start("GET", _path(request.model_spec), deadline, _status)

    def close(self) -> None:
        """Closes the idle connections."""
        self._http.close()

    def _start(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        decode: Callable[[Any], Any],
        body: Callable[[], bytes] = bytes,
    ) -> "_ThreadCall":
        def send(cancelled: threading.Event) -> Any:
            try:
                answer = self._http.send(method, self._url + path, body(), deadline, cancelled)
            except ServerError as error:
                code, details = error.code(), error.details()
                raise explained(code, details, self._address, "REST", deadline) from error
            try:
                return decode(json.loads(answer.decode("utf-8", "surrogateescape")))
            except (ValueError, json_format.ParseError) as error:
                details = f"{self._address} does not answer like a model server: {error}"
                raise ServerError(grpc.StatusCode.INTERNAL, details) from error

        return _ThreadCall(send)


class _ThreadCall(futures.Future):
    """A call in a daemon thread. Cancelling it only stops further retries."""

    def __init__(self, send: Callable[[threading.Event], Any]):
        super().__init__()
        self._cancelled = threading.Event()
        threading.Thread(target=self._run, args=(send,), name="rest-call", daemon=True).start()

    def _run(self, send: Callable[[threading.Event], Any]) -> None:
        try:
            answer = send(self._cancelled)
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(answer)

    def cancel(self) -> None:
        self._cancelled.set()


def _path(spec: model_pb2.ModelSpec) -> str:
    path = f"/v1/models/{urllib.parse.quote(spec.name, safe='')}"
    return f"{path}/versions/{spec.version.value}" if spec.HasField("version") else path


def _metadata(document: Any) -> get_model_metadata_pb2.GetModelMetadataResponse:
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    signatures = get_model_metadata_pb2.SignatureDefMap()
    try:
        spec, found = document["model_spec"], document["metadata"]["signature_def"]
    except (KeyError, TypeError) as error:
        raise ValueError("there is no key 'metadata'") from error
    json_format.ParseDict(spec, response.model_spec, ignore_unknown_fields=True)
    json_format.ParseDict(found, signatures, ignore_unknown_fields=True)
    response.metadata["signature_def"].Pack(signatures)
    return response


def _status(document: Any) -> get_model_status_pb2.GetModelStatusResponse:
    response = get_model_status_pb2.GetModelStatusResponse()
    return json_format.ParseDict(document, response, ignore_unknown_fields=True)
