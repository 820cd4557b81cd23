"""The HTTP endpoint of the server: TF Serving's REST interface, the web page, and the metrics.

    GET  /v1/models/{model}[/versions/{newest}]            → the state of its version
    GET  /v1/models/{model}[/versions/{newest}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{newest}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": tensors}           → {"outputs": tensors}

A row or the `inputs` are an object of named tensors, or a plain tensor if the signature has one
input. Strings are UTF-8, or bytes as {"b64": "…"}. Bytes that are not UTF-8 are preserved in both
directions (`surrogateescape`). Errors are {"error": "…"} with the HTTP status that TF Serving uses.
"""

import asyncio
import base64
import functools
import json
import reprlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent import futures
from importlib import resources
from typing import Any

import numpy as np
import prometheus_client
import tensorflow as tf
import uvicorn
from google.protobuf import json_format
from google.protobuf.message import Message
from grpc import StatusCode
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2

from elmo_tf.saved_models.server.batching import Limits, invalid, status_of
from elmo_tf.saved_models.server.model import ServedModel

_MODEL = "/v1/models/{name:path}"
_PAGE = resources.files("elmo_tf.saved_models.server").joinpath("page")
_LARGEST_VERSION = 2**63 - 1
_MAX_REQUESTS = 1024  # running, and connections
_DRAIN_SECONDS = 0.1  # to accept the connections made before `stop`
# All others are 500.
_HTTP_STATUS = {
    StatusCode.CANCELLED: 499,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.NOT_FOUND: 404,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNAVAILABLE: 503,
}


class RestEndpoint:
    """Answers in background threads, from construction to `stop()`.

    Args:
        port: 0 picks a free one, see the attribute `port`.

    Raises:
        OSError: the port is not available.
    """

    def __init__(self, model: ServedModel, host: str, port: int):
        self._model = model
        self._pool = futures.ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="rest")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_MAX_REQUESTS)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._application(),
            http="h11",
            ws="none",
            log_config=None,
            log_level="error",
            limit_concurrency=_MAX_REQUESTS,
            timeout_keep_alive=60,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="rest", daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self, grace: float) -> None:
        """Rejects new requests and waits up to `grace` seconds for the running ones."""
        time.sleep(_DRAIN_SECONDS)
        self._server.config.timeout_graceful_shutdown = grace
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False)

    def _application(self) -> Starlette:
        model = self._model
        routes: list[Any] = [
            Route("/monitoring/prometheus/metrics", self._metrics),  # TF Serving's default
            Route("/model.json", self._model_name),
        ]
        for path in (f"{_MODEL}/versions/{{version:int}}", _MODEL):
            routes += [
                Route(f"{path}:predict", self._endpoint(self._predict), methods=["POST"]),
                Route(f"{path}/metadata", self._endpoint(lambda spec, *_: model.metadata(spec))),
                Route(path, self._endpoint(lambda spec, *_: model.status(spec))),
            ]
        routes.append(Mount("/", StaticFiles(directory=_PAGE, html=True)))
        return Starlette(
            routes=routes,
            exception_handlers=dict.fromkeys(
                (HTTPException, tf.errors.OpError, ClientDisconnect, Exception), _on_error
            ),
        )

    def _endpoint(
        self, answer: Callable[[model_pb2.ModelSpec, bytes, Callable[[], bool]], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Calls `answer` in a thread, with the model, the body, and whether the client waits."""

        def encoded_answer(*arguments: Any) -> bytes:
            content = answer(*arguments)
            if isinstance(content, Message):
                content = json_format.MessageToDict(
                    content,
                    preserving_proto_field_name=True,
                    always_print_fields_with_no_presence=True,
                )
            content = json.dumps(content, ensure_ascii=False)
            return content.encode("utf-8", "surrogateescape")

        async def endpoint(request: Request) -> Response:
            spec = model_pb2.ModelSpec(name=request.path_params["name"])
            if (version := request.path_params.get("version")) is not None:
                spec.version.value = min(version, _LARGEST_VERSION)
            body = await self._body(request)
            # After the body, the next message is that the client has disconnected.
            left = asyncio.ensure_future(request.receive())
            try:
                content = await asyncio.get_running_loop().run_in_executor(
                    self._pool, encoded_answer, spec, body, lambda: not left.done()
                )
            except asyncio.CancelledError:  # after the grace period
                raise HTTPException(503, "The server is shutting down.") from None
            finally:
                left.cancel()
            return Response(content, media_type="application/json")

        return endpoint

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > (limit := self._model.limits.max_request_bytes):
                raise HTTPException(413, f"The request has more than {limit} bytes.")
        return bytes(body)

    def _predict(
        self, spec: model_pb2.ModelSpec, body: bytes, is_awaited: Callable[[], bool]
    ) -> dict[str, Any]:
        with self._model.counted(spec.name, "REST"):
            document = _parsed(body)
            with self._model.version(spec) as version:
                name, signature = version.signature(document.get("signature_name", ""))
                inputs = _input_arrays(document, signature.inputs, self._model.limits)
                outputs = version.predict(name, inputs, is_awaited=is_awaited)
            return _response(document, outputs)

    async def _metrics(self, request: Request) -> Response:
        content = prometheus_client.generate_latest(self._model.registry)
        return Response(content, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    async def _model_name(self, request: Request) -> Response:
        return JSONResponse({"model": self._model.name})


async def _on_error(request: Request, error: Exception) -> Response:
    """Returns an error as JSON; uvicorn logs unexpected ones."""
    if not isinstance(error, HTTPException):
        code, message = status_of(error)
        status = _HTTP_STATUS.get(code, 500)
    else:
        status, message = error.status_code, error.detail
    return JSONResponse({"error": message}, status)


def _parsed(body: bytes) -> dict[str, Any]:
    """Parses the body of a request and checks its keys."""
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is not JSON: {error}") from error
    if not isinstance(document, dict) or ("instances" in document) == ("inputs" in document):
        raise invalid(
            f"Expected a JSON object with 'instances' or 'inputs', but got {reprlib.repr(document)}"
        )
    if not isinstance(name := document.get("signature_name", ""), str):
        raise invalid(f"'signature_name' must be a string, not {reprlib.repr(name)}")
    return document


def _input_arrays(
    document: dict[str, Any], infos: Mapping[str, meta_graph_pb2.TensorInfo], limits: Limits
) -> dict[str, np.ndarray]:
    """Returns the arrays of a request for the inputs in `infos`."""
    if "inputs" in document:
        values = _named(document["inputs"], infos, "'inputs'")
    else:
        rows = document["instances"]
        if not isinstance(rows, list) or not rows:
            raise invalid(
                f"Expected 'instances' to be a list of rows, but got {reprlib.repr(rows)}"
            )
        for name, info in infos.items():
            limits.check_size(name, info.dtype, [len(rows)])
        rows = [_named(row, infos, f"row {i} of 'instances'") for i, row in enumerate(rows)]
        values = {name: [row[name] for row in rows] for name in infos}
    return {name: _array(name, values[name], info, limits) for name, info in infos.items()}


def _response(document: dict[str, Any], outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the response to a request: rows for `instances`, complete tensors for `inputs`.

    If there is one output, its values are plain instead of objects.
    """
    has_instances = "instances" in document
    values: Any = {name: _jsonable(array) for name, array in outputs.items()}
    if len(values) == 1:
        (values,) = values.values()
    elif has_instances:
        rows = zip(*values.values(), strict=True)
        values = [dict(zip(outputs, row, strict=True)) for row in rows]
    return {"predictions" if has_instances else "outputs": values}


def _named(value: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """Returns the value of each input; a plain value belongs to the only input."""
    if not isinstance(value, dict) or set(value) == {"b64"}:
        if len(names) == 1:
            return dict.fromkeys(names, value)
    elif set(value) == set(names):
        return value
    raise invalid(
        f"Expected {where} to be an object with {sorted(names)}, but got {reprlib.repr(value)}"
    )


def _array(name: str, value: Any, info: meta_graph_pb2.TensorInfo, limits: Limits) -> np.ndarray:
    dtype, rank = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape).rank
    values = np.array(value, object)
    if rank not in (None, values.ndim):
        raise invalid(
            f"Expected {name} to have {rank} axes with lists of equal lengths, but got "
            f"{values.ndim}: {reprlib.repr(value)}"
        )
    limits.check_size(name, info.dtype, values.shape)
    kind, scalars = dtype.name, values.ravel().tolist()
    try:
        if dtype == tf.string:
            kind = 'strings (Unicode, or bytes as {"b64": "…"})'
            scalars = [_bytes(scalar) for scalar in scalars]
        else:
            scalar_type = int if dtype.is_integer else float
            scalars = TypeAdapter(list[scalar_type]).validate_python(scalars, strict=True)
        return np.array(scalars, dtype.as_numpy_dtype).reshape(values.shape)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise invalid(f"Expected {name} to hold {kind}, but got {reprlib.repr(value)}") from error


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    return value.encode("utf-8", "surrogateescape")


def _jsonable(array: np.ndarray) -> Any:
    if array.dtype == object:
        decode = functools.partial(bytes.decode, encoding="utf-8", errors="surrogateescape")
        return np.vectorize(decode, otypes=[object])(array).tolist()
    if np.issubdtype(array.dtype, np.floating):
        if array.ndim > 1:  # row by row, because numbers as text need 32 times the memory
            return [_jsonable(row) for row in array]
        # Via text, so that float32 0.1 is written as 0.1 and not as 0.10000000149.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()
