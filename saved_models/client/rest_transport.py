"""The client's transport over REST."""

import json
import os
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import grpc
import urllib3
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from elmo_tf.saved_models.client.calls import Deadline, ServerError, explained
from elmo_tf.saved_models.client.rest_tensors import request_body, response_arrays

# gRPC's equivalents of the HTTP status codes of TF Serving and of proxies.
_STATUS_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ABORTED,
    412: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_CONNECTIONS = 32  # kept alive


class RestTransport:
    """Sends requests over a connection pool, each in its own thread.

    `address` is the one given by the caller, for error messages; `url` excludes `/v1`.
    """

    def __init__(
        self,
        address: str,
        url: str,
        retries: int,
        pem_files: Sequence[str | os.PathLike | None],
        headers: Mapping[str, str],
    ):
        self._address = address
        self._url = url
        self._retries = retries
        self._pool = urllib3.PoolManager(
            headers={**headers, "Content-Type": "application/json"},
            maxsize=_CONNECTIONS,
            **dict(zip(("ca_certs", "key_file", "cert_file"), pem_files, strict=True)),
        )

    def start(
        self, request: Message, deadline: Deadline, outputs: Mapping[str, meta_graph_pb2.TensorInfo]
    ) -> "_RestCall":
        """Sends a request. Predictions return arrays by name.

        `outputs` are those of the signature, for their types; empty if unknown.
        """
        spec, cancelled = request.model_spec, threading.Event()
        retries = _retries(self._retries, deadline, cancelled)
        url = f"{self._url}/v1/models/{urllib.parse.quote(spec.name, safe='')}"
        if spec.HasField("version"):
            url += f"/versions/{spec.version.value}"

        def document(method: str, url: str, body: bytes | None = None) -> Any:
            timeout = urllib3.Timeout(total=deadline.left())
            response = self._pool.request(
                method, url, body=body, timeout=timeout, retries=retries, redirect=False
            )
            if response.status != 200:
                raise _error_of_response(response)
            return json.loads(response.data.decode("utf-8", "surrogateescape"))

        def send() -> Any:
            if isinstance(request, predict_pb2.PredictRequest):
                answer = document("POST", f"{url}:predict", request_body(request))
                return response_arrays(answer, list(request.output_filter), outputs)
            if isinstance(request, get_model_metadata_pb2.GetModelMetadataRequest):
                return _metadata(document("GET", f"{url}/metadata"))
            response = get_model_status_pb2.GetModelStatusResponse()
            return json_format.ParseDict(document("GET", url), response, ignore_unknown_fields=True)

        return _RestCall(send, deadline, cancelled, self._address)

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()


class _RestCall(futures.Future):
    """A call in a daemon thread. Cancelling it only stops further retries."""

    def __init__(
        self, send: Callable[[], Any], deadline: Deadline, cancelled: threading.Event, address: str
    ):
        super().__init__()
        self._send = send
        self._deadline = deadline
        self._cancelled = cancelled
        self._address = address
        threading.Thread(target=self._run, name="rest-call", daemon=True).start()

    def _run(self) -> None:
        try:
            self.set_result(self._send())
        except BaseException as error:
            self.set_exception(error)

    def result(self) -> Any:
        try:
            return super().result(self._deadline.left())
        except TimeoutError:  # the limits of urllib3 apply to each attempt and each read
            self.cancel()
            failure = ServerError(grpc.StatusCode.DEADLINE_EXCEEDED, "")
        except urllib3.exceptions.HTTPError as error:
            failure = _error_of_failure(error)
        except ServerError as error:
            failure = error
        except (ValueError, json_format.ParseError) as error:
            details = f"{self._address} does not answer like a model server: {error}"
            raise ServerError(grpc.StatusCode.INTERNAL, details) from error
        raise explained(failure, self._address, "REST", self._deadline)

    def cancel(self) -> None:
        self._cancelled.set()


def _retries(total: int, deadline: Deadline, cancelled: threading.Event) -> urllib3.Retry:
    """Returns retries until a deadline, or until an event is set."""

    class Retries(urllib3.Retry):
        def sleep(self, response: urllib3.BaseHTTPResponse | None = None) -> None:
            asked_for = None if response is None else self.get_retry_after(response)
            pause, left = asked_for or self.get_backoff_time(), deadline.left()
            if (left is not None and pause >= left) or cancelled.wait(pause):
                raise self.history[-1].error or _error_of_response(response)

    return Retries(
        total=total,
        other=0,  # errors of TLS, which would occur again
        status_forcelist=(502, 503),
        allowed_methods=None,  # POST too: predictions have no side effects
        raise_on_status=False,
        backoff_factor=0.1,
        backoff_max=5,
        backoff_jitter=0.1,
    )


def _error_of_response(response: urllib3.BaseHTTPResponse) -> ServerError:
    text = response.data.decode("utf-8", "surrogateescape")
    try:
        details = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        # Not from a model server, but perhaps from a proxy.
        details = f"HTTP {response.status} {response.reason}: {' '.join(text.split()):.200}"
    return ServerError(_STATUS_CODES.get(response.status, grpc.StatusCode.UNKNOWN), str(details))


def _error_of_failure(error: urllib3.exceptions.HTTPError) -> ServerError:
    error = getattr(error, "reason", None) or error
    # In urllib3, the error of a refused connection is also a `TimeoutError`.
    is_timeout = isinstance(error, urllib3.exceptions.TimeoutError)
    if is_timeout and not isinstance(error, urllib3.exceptions.NewConnectionError):
        return ServerError(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    return ServerError(grpc.StatusCode.UNAVAILABLE, str(error.__cause__ or error))


def _metadata(document: Any) -> get_model_metadata_pb2.GetModelMetadataResponse:
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    signatures = get_model_metadata_pb2.SignatureDefMap()
    try:
        spec, definitions = document["model_spec"], document["metadata"]["signature_def"]
    except (KeyError, TypeError) as error:
        raise ValueError("there is no key 'metadata'") from error
    json_format.ParseDict(spec, response.model_spec, ignore_unknown_fields=True)
    json_format.ParseDict(definitions, signatures, ignore_unknown_fields=True)
    response.metadata["signature_def"].Pack(signatures)
    return response
