"""The embedded server: exported models over TF Serving's protocols, for development and tests."""

import contextlib
import os
import socket
import threading

from absl import logging

from elmo_tf.checkpoints.formats import Source
from elmo_tf.saved_models.config_protos import METRICS_PATH, read_models_config
from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING, Batching
from elmo_tf.saved_models.server.catalogue import Catalogue, config_of
from elmo_tf.saved_models.server.checkpoints import exported_models
from elmo_tf.saved_models.server.grpc_endpoint import GrpcEndpoint
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.rest import RestEndpoint


def serve(
    directory: Source | None = None,
    name: str = "elmo",
    port: int = 8500,
    rest_port: int | None = 8501,
    host: str = "127.0.0.1",
    *,
    models_config: str | os.PathLike | None = None,
    batching: Batching | None = DEFAULT_BATCHING,
    limits: Limits | None = None,
    poll_seconds: float | None = 1.0,
    metrics_path: str | None = METRICS_PATH,
    access_log: bool = False,
) -> "Server":
    """Serves an exported model over gRPC and REST, without blocking.

    The newest version is loaded, and replaced when a newer one appears in `directory`. A request
    may name an older version, which is loaded on first use.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`). A
            checkpoint or the name of a model (see `load_bilm`) is first exported into a temporary
            folder.
        name: the model's name in requests.
        port: of gRPC. 0 picks a free one.
        rest_port: of REST and of the page at `/`. 0 picks a free one, `None` disables REST.
        host: address to listen on. The default accepts connections from this machine only,
            `"0.0.0.0"` from everywhere. There is no authentication and no encryption.
        models_config: a file in the format of TF Serving's `--model_config_file`, instead of
            `directory` and `name`: several models, version policies, labels.
        batching: how requests are batched. `None` disables batching.
        limits: of a request.
        poll_seconds: between checks for new versions; `None` disables them.
        metrics_path: of the Prometheus metrics, on the REST port; `None` disables them.
        access_log: whether to log a line per request: peer, protocol, method, model or path,
            status and milliseconds.

    Returns:
        A `Server` that accepts requests. Keep a reference to it: otherwise gRPC stops.

    Raises:
        FileNotFoundError: `directory` does not exist or holds no version.
        OSError: a port is not available, or a version cannot be read.
        TypeError: neither or both of `directory` and `models_config` are given.
        ValueError: a port is not in 0 … 65535, or `models_config` cannot be parsed.
        tf.errors.OpError: a version cannot be loaded.
    """
    if (directory is None) == (models_config is None):
        raise TypeError(
            "Expected either the directory of a model or models_config, but got "
            f"{directory!r} and {models_config!r}."
        )
    _check_ports(host, port, rest_port)
    metrics = Metrics()
    url_host = f"[{host}]" if ":" in host else host
    with contextlib.ExitStack() as cleanup:
        if models_config is None:
            config = config_of(cleanup.enter_context(exported_models(directory)), name)
        else:
            config = read_models_config(models_config)
            if not config.model_config_list.config:
                raise ValueError(f"{os.fspath(models_config)} names no model.")
        catalogue = Catalogue(config, limits, batching, metrics)
        cleanup.callback(catalogue.close)
        rest = None
        if rest_port is not None:
            rest = RestEndpoint(catalogue, metrics, host, rest_port, metrics_path, access_log)
            cleanup.callback(rest.stop, 0)
        catalogue.load()
        endpoint = GrpcEndpoint(catalogue, metrics, f"{url_host}:{port}", access_log)
        server = Server(catalogue, endpoint, rest, cleanup.pop_all())
    if rest is not None:
        rest.start()
    if poll_seconds is not None:
        catalogue.watch(poll_seconds)
    rest_note = "" if rest is None else f", REST and a web page on http://{url_host}:{rest.port}"
    names = ", ".join(catalogue.names)
    logging.info("Serving %s: gRPC on %s:%d%s.", names, url_host, endpoint.port, rest_note)
    return server


class Server:
    """A running server, returned by `serve`. As a context manager it stops on exit.

    Attributes:
        port: of gRPC.
        rest_port: of REST, or `None`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        endpoint: GrpcEndpoint,
        rest: RestEndpoint | None,
        cleanup: contextlib.ExitStack,
    ):
        self.port = endpoint.port
        self.rest_port = None if rest is None else rest.port
        self._catalogue = catalogue
        self._endpoint = endpoint
        self._rest = rest
        self._cleanup = cleanup  # closes the models and removes the temporary export
        self._stopped = threading.Event()

    def stop(self, grace: float = 30.0) -> None:
        """Rejects new requests, finishes the running ones, and releases the ports.

        Args:
            grace: seconds to wait for running requests. Requests that take longer are cancelled,
                but a computation in progress is completed before `stop` returns.
        """
        grpc_stopped = self._endpoint.stop(grace)
        if self._rest is not None:
            self._rest.stop(grace)
        grpc_stopped.wait()
        self._cleanup.close()
        self._stopped.set()

    def wait(self) -> None:
        """Blocks until the server is stopped."""
        self._stopped.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _check_ports(host: str, port: int, rest_port: int | None) -> None:
    """Checks the ports before a model is loaded; gRPC's own error does not name the reason."""
    if port == rest_port != 0:
        raise _port_error(host, port, "it is used for both gRPC and REST")
    for number in (port, rest_port or 0):
        if not 0 <= number <= 65535:
            raise ValueError(f"A port must be 0 … 65535 (0 picks a free one). Received: {number}")
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name != "nt")
                probe.bind((host, number))
        except OSError as error:
            raise _port_error(host, number, error.strerror) from error


def _port_error(host: str, port: int, reason: str) -> OSError:
    return OSError(
        f"Cannot listen on {host}, port {port}: {reason}. Choose another port; 0 picks a free one."
    )
