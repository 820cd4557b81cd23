"""The HTTP endpoint of the server: TF Serving's REST interface, the web page, and the metrics.

    GET  /v1/models/{model}[/versions/{newest}]            → the state of its version
    GET  /v1/models/{model}[/versions/{newest}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{newest}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": tensors}           → {"outputs": tensors}
         with "output_filter": [names], only these outputs are returned

A row or the `inputs` are an object of named tensors, or a plain tensor if the signature has one
input. Strings are UTF-8, or bytes as {"b64": "…"}. Bytes that are not UTF-8 are preserved in both
directions (`surrogateescape`). Errors are {"error": "…"} with the HTTP status that TF Serving uses.
"""

import asyncio
import base64
import json
import re
import reprlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent import futures
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
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2

from elmo_tf.saved_models.server.batching import Limits, invalid, status_of
from elmo_tf.saved_models.server.model import ServedModel

_MODEL = "/v1/models/{name:path}"
_MAX_CONNECTIONS = 512  # further ones get 503; with them, fewer than the 1,024 files of a process
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
    """Answers in background threads, from construction to `stop()`. For the arguments, see `serve`.

    Port 0 picks a free one, see the attribute `port`.
    """

    def __init__(self, model: ServedModel, host: str, port: int, allowed_hosts: Iterable[str]):
        self._model = model
        # Another site can make its name an address of this server, so that a browser gives its
        # pages the answers (DNS rebinding). It cannot have an address as its name.
        names = map(re.escape, ("localhost", socket.gethostname(), host, *allowed_hosts))
        hosts = "|".join(names).replace(r"\*", ".*")
        self._hosts = re.compile(rf"({hosts}|[\d.]+|\[[\da-f:.]+\])(:\d+)?", re.IGNORECASE)
        routes: list[Any] = [
            Route("/monitoring/prometheus/metrics", self._metrics),  # TF Serving's default
            Route("/model.json", lambda request: JSONResponse({"model": model.name})),
        ]
        for path in (f"{_MODEL}/versions/{{version:int}}", _MODEL):
            routes += [
                Route(f"{path}:predict", self._endpoint(self._predict), methods=["POST"]),
                Route(f"{path}/metadata", self._endpoint(lambda spec, *_: model.metadata(spec))),
                Route(path, self._endpoint(lambda spec, *_: model.status(spec))),
            ]
        routes.append(Mount("/", StaticFiles(packages=[(__package__, "page")], html=True)))
        errors = (HTTPException, tf.errors.OpError, ClientDisconnect, Exception)
        self._application = Starlette(
            routes=routes, exception_handlers=dict.fromkeys(errors, _on_error)
        )
        self._parsing = threading.Lock()  # one body at a time, which bounds the memory
        self._pool = futures.ThreadPoolExecutor(_MAX_CONNECTIONS, thread_name_prefix="rest")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_MAX_CONNECTIONS)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._checked,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            limit_concurrency=_MAX_CONNECTIONS,
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
        self._server.config.timeout_graceful_shutdown = grace
        self._server.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a Host that is not allowed."""
        application: ASGIApp = self._application
        host = Headers(scope=scope).get("host")
        if host and not self._hosts.fullmatch(host):
            message = f"The host {host} is not allowed. See the option --allowed-hosts."
            application = JSONResponse({"error": message}, 403)
        await application(scope, receive, send)

    def _endpoint(self, answer: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
        """Calls `answer` in a thread; arguments are the model, the body, and a future to fill."""

        async def endpoint(request: Request) -> Response:
            spec = model_pb2.ModelSpec(name=request.path_params["name"])
            if (version := request.path_params.get("version")) is not None:
                spec.version.value = min(version, 2**63 - 1)
            body = await self._body(request)
            # After the body, the next message is that the client has disconnected.
            left = asyncio.ensure_future(request.receive())
            arrays: futures.Future = futures.Future()
            left.add_done_callback(lambda _: arrays.cancel())

            def encoded() -> bytes:
                content = _json(answer(spec, body, arrays))
                return content.encode("utf-8", "surrogateescape")

            try:
                content = await asyncio.get_running_loop().run_in_executor(self._pool, encoded)
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

    def _predict(self, spec: model_pb2.ModelSpec, body: bytes, arrays: futures.Future) -> dict:
        with self._model.counted(spec.name, "REST"), self._model.version(spec) as version:
            with self._parsing:
                document = _parsed(body)
                name, signature = version.signature(document.get("signature_name", ""))
                inputs = _input_arrays(document, signature.inputs, self._model.limits)
            outputs = version.predict(name, inputs, document.get("output_filter", ()), arrays)
        return _response(document, outputs)

    async def _metrics(self, request: Request) -> Response:
        content = prometheus_client.generate_latest(self._model.registry)
        return Response(content, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})


async def _on_error(request: Request, error: Exception) -> Response:
    """Returns an error as JSON; uvicorn logs unexpected ones."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    code, message = status_of(error)
    return JSONResponse({"error": message}, _HTTP_STATUS.get(code, 500))


def _parsed(body: bytes) -> dict[str, Any]:
    """Parses the body of a request and checks its keys."""
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is not JSON: {error}") from error
    if not isinstance(document, dict) or ("instances" in document) == ("inputs" in document):
        raise _unexpected("a JSON object with 'instances' or 'inputs'", document)
    for key, kind, text in (("signature_name", str, "string"), ("output_filter", list, "list")):
        if not isinstance(value := document.get(key, kind()), kind):
            raise _unexpected(f"'{key}' to be a {text}", value)
    return document


def _unexpected(expected: str, value: Any) -> tf.errors.OpError:
    return invalid(f"Expected {expected}, but got {reprlib.repr(value)}")


def _input_arrays(
    document: dict[str, Any], infos: Mapping[str, meta_graph_pb2.TensorInfo], limits: Limits
) -> dict[str, np.ndarray]:
    """Returns the arrays of a request for the inputs in `infos`."""
    if "inputs" in document:
        values = _named(document["inputs"], infos, "'inputs'")
    else:
        rows = document["instances"]
        if not isinstance(rows, list) or not rows:
            raise _unexpected("'instances' to be a list of rows", rows)
        rows = [_named(row, infos, f"row {i} of 'instances'") for i, row in enumerate(rows)]
        values = {name: [row[name] for row in rows] for name in infos}
    return {name: _array(name, values[name], info, limits) for name, info in infos.items()}


def _response(document: dict[str, Any], outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the response to a request: rows for `instances`, complete tensors for `inputs`.

    If there is one output, its values are plain instead of objects.
    """
    has_instances, values = "instances" in document, outputs
    if len(outputs) == 1:
        (values,) = outputs.values()
    elif has_instances:
        rows = zip(*outputs.values(), strict=True)
        values = [dict(zip(outputs, row, strict=True)) for row in rows]
    return {"predictions" if has_instances else "outputs": values}


def _named(value: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """Returns the value of each input; a plain value belongs to the only input."""
    if not isinstance(value, dict) or set(value) == {"b64"}:
        if len(names) == 1:
            return dict.fromkeys(names, value)
    elif set(value) == set(names):
        return value
    raise _unexpected(f"{where} to be an object with {sorted(names)}", value)


def _array(name: str, value: Any, info: meta_graph_pb2.TensorInfo, limits: Limits) -> np.ndarray:
    dtype, rank = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape).rank
    values = np.array(value, object)
    if rank not in (None, values.ndim):
        raise _unexpected(f"{name} to have {rank} axes with lists of equal lengths", value)
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
        raise _unexpected(f"{name} to hold {kind}", value) from error


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    return value.encode("utf-8", "surrogateescape")


def _json(value: Any) -> str:
    """Returns JSON. Rows are encoded one by one: other threads run between them."""
    if isinstance(value, Message):
        value = json_format.MessageToDict(
            value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    if isinstance(value, dict):
        items = ", ".join(f"{json.dumps(name)}: {_json(item)}" for name, item in value.items())
        return f"{{{items}}}"
    if isinstance(value, list) or getattr(value, "ndim", 0) > 1:
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, np.ndarray | np.generic) and np.issubdtype(value.dtype, np.floating):
        # With the digits of its type: float32 0.1 is written as 0.1 and not as 0.10000000149.
        text = ", ".join(map(str, value.ravel())).replace("nan", "NaN").replace("inf", "Infinity")
        return f"[{text}]" if value.ndim else text
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Returns an array or a scalar of an output as Python types, for `json`."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value.tolist()
