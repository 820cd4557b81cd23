"""The HTTP endpoint of the server: TF Serving's REST interface, the web page, and the metrics.

    GET  /v1/models/{model}[/versions/{version}]            → the states of its versions
    GET  /v1/models/{model}[/versions/{version}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{version}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": tensors}           → {"outputs": tensors}

Errors are {"error": "…"} with the HTTP status that TF Serving uses.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent import futures
from importlib import resources
from typing import Any

import prometheus_client
import tensorflow as tf
import uvicorn
from absl import logging
from google.protobuf import json_format
from google.protobuf.message import Message
from grpc import StatusCode
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_tf.saved_models.server import rest_json
from elmo_tf.saved_models.server.limits import printable, shortened, status_of
from elmo_tf.saved_models.server.models import ServerCore

METRICS_PATH = "/monitoring/prometheus/metrics"  # TF Serving's default
_PAGE = resources.files("elmo_tf.saved_models.server").joinpath("page")
# User input and model output cannot load scripts, styles or other resources.
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_MAX_REQUESTS = 1024  # running, and connections
_READ_SECONDS = 60  # for the head of a first request, and for a body
_DRAIN_SECONDS = 0.1  # to accept the connections made before `stop`
# All others are 500.
_HTTP_STATUS = {
    StatusCode.CANCELLED: 499,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.OUT_OF_RANGE: 400,
    StatusCode.NOT_FOUND: 404,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.UNAVAILABLE: 503,
}


class RestEndpoint:
    """Answers in background threads, from construction to `stop()`.

    Args:
        port: 0 picks a free one, see the attribute `port`.
        access_log: whether to log a line per request.

    Raises:
        OSError: the port is not available.
    """

    def __init__(self, core: ServerCore, host: str, port: int, access_log: bool = False):
        self._core = core
        self._pool = futures.ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="rest")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_MAX_REQUESTS)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._application(access_log),
            http=_Protocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_MAX_REQUESTS,
            limit_concurrency=_MAX_REQUESTS,
            timeout_keep_alive=_READ_SECONDS,
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

    def _application(self, access_log: bool) -> Starlette:
        routes: list[Any] = [
            Route(METRICS_PATH, self._metrics),
            Route("/models.json", self._model_names),
        ]
        for model in ("/v1/models/{name:path}/versions/{version}", "/v1/models/{name:path}"):
            routes += [
                Route(f"{model}:predict", self._endpoint(self._predict), methods=["POST"]),
                Route(f"{model}/metadata", self._endpoint(self._metadata)),
                Route(model, self._endpoint(self._status)),
            ]
        routes.append(Mount("/", _Page(directory=_PAGE, html=True)))
        return Starlette(
            routes=routes,
            middleware=[Middleware(BaseHTTPMiddleware, _log_request)] if access_log else [],
            exception_handlers=dict.fromkeys(
                (HTTPException, tf.errors.OpError, ClientDisconnect, Exception), _on_error
            ),
        )

    def _endpoint(
        self, answer: Callable[[model_pb2.ModelSpec, bytes], dict[str, Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Runs a function of model and body in a thread; it returns the content of the answer."""

        def encoded_answer(*arguments: Any) -> bytes:
            content = json.dumps(answer(*arguments), ensure_ascii=False)
            return content.encode("utf-8", "surrogateescape")

        async def endpoint(request: Request) -> Response:
            spec = model_pb2.ModelSpec(name=request.path_params["name"])
            if "version" in request.path_params:
                version = request.path_params["version"]
                if not (version.isascii() and version.isdecimal() and len(version) <= 18):
                    raise HTTPException(404)
                spec.version.value = int(version)
            arguments = encoded_answer, spec, await self._body(request)
            try:
                content = await asyncio.get_running_loop().run_in_executor(self._pool, *arguments)
            except asyncio.CancelledError:  # after the grace period
                raise HTTPException(503, "The server is shutting down.") from None
            return Response(content, media_type="application/json")

        return endpoint

    async def _body(self, request: Request) -> bytes:
        limit, body = self._core.limits.max_request_bytes, bytearray()
        length = request.headers.get("Content-Length", "0")
        try:
            async with asyncio.timeout(_READ_SECONDS):
                if int(length) <= limit:
                    async for chunk in request.stream():
                        body += chunk
                        if len(body) > limit:  # it came without a length
                            break
                    else:
                        return bytes(body)
        except TimeoutError:
            raise HTTPException(408, f"The body took longer than {_READ_SECONDS} s.") from None
        raise HTTPException(413, f"The request has more than {limit} bytes.")

    def _predict(self, spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
        start_time, code = time.monotonic(), StatusCode.OK
        try:
            document = rest_json.parse(body)
            with self._core.version(spec) as version:
                name, signature = version.signature(document.get("signature_name", ""))
                inputs = rest_json.input_arrays(document, signature.inputs, self._core.limits)
                outputs = version.predict(name, inputs)
            return rest_json.response(document, outputs)
        except Exception as error:
            code, _ = status_of(error)
            raise
        finally:
            self._core.observe(spec.name, code, "REST", start_time)

    def _metadata(self, spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
        with self._core.version(spec) as version:
            spec.version.value = version.number
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=version.signatures)
        return {"model_spec": _as_dict(spec), "metadata": {"signature_def": _as_dict(signatures)}}

    def _status(self, spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
        return _as_dict(self._core.status(request))

    async def _metrics(self, request: Request) -> Response:
        headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
        return Response(self._core.metrics.as_text(), headers=headers)

    async def _model_names(self, request: Request) -> Response:
        return JSONResponse({"models": self._core.names}, headers=_PAGE_HEADERS)


class _Page(StaticFiles):
    """The static files of the web page, which calls the REST interface like any other client."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers.update(_PAGE_HEADERS)
        return response


class _Protocol(H11Protocol):
    """HTTP whose errors are JSON, and that closes connections without a request in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(_READ_SECONDS, self._close_without_request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _close_without_request(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"error": msg}).encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


async def _log_request(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    start_time = time.monotonic()
    response = await call_next(request)
    logging.info(
        "%s REST %s %s %d %.1f ms",
        request.client.host,
        request.method,
        printable(request.url.path),
        response.status_code,
        1000 * (time.monotonic() - start_time),
    )
    return response


async def _on_error(request: Request, error: Exception) -> Response:
    """Returns an error as JSON; uvicorn logs unexpected ones."""
    if not isinstance(error, HTTPException):
        code, message = status_of(error)
        status = _HTTP_STATUS.get(code, 500)
    elif error.status_code in (404, 405):
        status, message = (
            400,
            f"Malformed request: {request.method} {shortened(request.url.path)}. This server knows "
            "GET /v1/models/NAME, GET /v1/models/NAME/metadata and POST /v1/models/NAME:predict, "
            "with /versions/NUMBER after NAME for a version other than the newest.",
        )
    else:
        status, message = error.status_code, error.detail
    return JSONResponse({"error": message}, status)


def _as_dict(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
