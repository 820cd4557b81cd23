"""The client's transport over REST: requests ─► JSON ─► arrays, by the rules of TF Serving.

`inputs` and `outputs` hold complete tensors. Strings are UTF-8, or bytes as {"b64": "…"}.
"""

import base64
import json
import os
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
import urllib3
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from elmo_tf.saved_models.client.calls import Deadline, OutputInfos, ServerError, explained
from elmo_tf.text.reading import encode

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

    def start(self, request: Message, deadline: Deadline, outputs: OutputInfos) -> "_RestCall":
        """Sends a request. Predictions return arrays by name.

        `outputs` are those of the signature, for their types; empty if unknown.
        """
        spec, call = request.model_spec, _RestCall(self._address, deadline)
        retries = _retries(self._retries, deadline, call.stopped)
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

        threading.Thread(target=call.run, args=(send,), name="rest-call", daemon=True).start()
        return call

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()


class _RestCall(futures.Future):
    """A call in a daemon thread. Cancelling it only stops further retries."""

    def __init__(self, address: str, deadline: Deadline):
        super().__init__()
        self._address = address
        self._deadline = deadline
        self.stopped = threading.Event()

    def run(self, send: Callable[[], Any]) -> None:
        try:
            self.set_result(send())
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
        self.stopped.set()


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


def request_body(request: predict_pb2.PredictRequest) -> bytes:
    """Returns the body of a request. REST has no `output_filter`: all outputs are returned."""
    inputs = {name: tf.make_ndarray(tensor) for name, tensor in sorted(request.inputs.items())}
    document = {
        "signature_name": request.model_spec.signature_name,
        "inputs": {name: _jsonable(array.tolist()) for name, array in inputs.items()},
    }
    return json.dumps(document, ensure_ascii=False).encode()


def response_arrays(document: Any, wanted: list[str], infos: OutputInfos) -> dict[str, np.ndarray]:
    """Returns the arrays of a response.

    Args:
        document: the parsed response.
        wanted: names of the outputs to keep; empty means all.
        infos: the outputs of the signature, for their dtypes and for empty axes; empty if they are
            unknown.

    Raises:
        ValueError: `document` is not a response.
        ServerError: there is no such output.
    """
    if not isinstance(document, dict) or "outputs" not in document:
        raise ValueError("there is no key 'outputs'")
    values = document["outputs"]
    if not isinstance(values, dict) or set(values) == {"b64"}:
        # The only output of a signature is sent without its name.
        (name,) = infos if len(infos) == 1 else (*wanted, "outputs")[:1]
        values = {name: values}
    for name in wanted:
        if name not in values:
            raise ServerError(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"output tensor alias not found in signature: {name} "
                f"Outputs expected to be in the set {{{','.join(sorted(values))}}}.",
            )
    names = wanted or sorted(values)
    return {name: _array(values[name], infos.get(name)) for name in names}


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(element) for element in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode("ascii")}


def _array(value: Any, info: meta_graph_pb2.TensorInfo | None) -> np.ndarray:
    dtype = None if info is None else tf.as_dtype(info.dtype).as_numpy_dtype
    if dtype is object or (dtype is None and _is_text(_first(value))):
        array = np.vectorize(_as_bytes, otypes=[object])(np.array(value, object))
    else:
        array = np.asarray(value)
        if dtype is None and array.dtype == np.float64:
            dtype = np.float32
        array = array.astype(dtype or array.dtype)
    return array if info is None else _with_all_axes(array, tf.TensorShape(info.tensor_shape))


def _with_all_axes(array: np.ndarray, shape: tf.TensorShape) -> np.ndarray:
    """Restores the axes after an empty axis, which JSON does not represent."""
    if array.size or shape.rank is None or array.ndim >= shape.rank:
        return array
    return array.reshape([*array.shape, *(size or 0 for size in shape.as_list()[array.ndim :])])


def _first(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and set(value) == {"b64"})


def _as_bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else encode(value)
