"""The embedded server: exported models, by TF Serving's protocols, for the desk and for tests."""

import contextlib
import os
import socket
import threading

from absl import logging

from elmo_tf.checkpoints.load import Source
from elmo_tf.saved_models.config_protos import read_models_config
from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING, Batching
from elmo_tf.saved_models.server.catalogue import Catalogue, Config, config_of
from elmo_tf.saved_models.server.checkpoints import exported_models
from elmo_tf.saved_models.server.grpc_endpoint import GrpcEndpoint
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.rest import RestEndpoint

METRICS_PATH = "/monitoring/prometheus/metrics"  # TF Serving's


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
    """Serves the newest version of an exported model, without blocking.

    A newer version that appears in `directory` takes over when it is loaded. A request that names
    another version in `directory` gets that one; it is loaded when first asked for.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`). Or a
            checkpoint or the name of a model, see `load_bilm`: it is exported into a temporary
            folder first.
        name: what requests call the model.
        port: of gRPC. 0 picks a free one.
        rest_port: of REST, and of the page at `/`. 0 picks a free one, `None` means no REST.
        host: address to listen on. The default is reached from this machine only; `"0.0.0.0"`
            is reached from everywhere. There is neither encryption nor a check of who asks.
        models_config: a file as TF Serving's `--model_config_file`, in place of `directory` and
            `name`: several models, version policies, labels.
        batching: how requests are computed together. `None` means each by itself.
        limits: of a request.
        poll_seconds: between looks for new versions; `None` means never.
        metrics_path: of Prometheus's metrics, on the port of REST; `None` means none.
        access_log: whether to log a line for each request: peer, protocol, method, model or path,
            status and milliseconds.

    Returns:
        A `Server` that is ready to answer. Keep it: gRPC stops when nothing refers to it.

    Raises:
        FileNotFoundError: `directory` does not exist or holds no version.
        OSError: a port cannot be listened on, or a version cannot be read.
        TypeError: not one of `directory` and `models_config` is given.
        ValueError: a port is not in 0 … 65535, or `models_config` cannot be read.
        tf.errors.OpError: a version cannot be loaded.
    """
    if (directory is None) == (models_config is None):
        raise TypeError(
            "Expected either the directory of a model or models_config, but got "
            f"{directory!r} and {models_config!r}."
        )
    _check_ports(host, port, rest_port)
    metrics = Metrics()
    folders = contextlib.ExitStack()
    with contextlib.ExitStack() as undo:
        undo.enter_context(folders)
        if models_config is None:
            config = config_of(folders.enter_context(exported_models(directory)), name)
        else:
            config = _read_config(models_config)
        catalogue = Catalogue(config, limits, batching, metrics)
        undo.callback(catalogue.close)
        rest = None
        if rest_port is not None:
            rest = RestEndpoint(catalogue, metrics, host, rest_port, metrics_path, access_log)
            undo.callback(rest.stop, 0)
        catalogue.load()
        try:
            endpoint = GrpcEndpoint(catalogue, metrics, f"{_in_url(host)}:{port}", access_log)
        except RuntimeError as error:
            raise _port_error(host, port, "the address is in use") from error
        undo.pop_all()
    if rest is not None:
        rest.start()
    if poll_seconds is not None:
        catalogue.watch(poll_seconds)
    rest_note = "" if rest is None else f", REST and a page on http://{_in_url(host)}:{rest.port}"
    names = ", ".join(catalogue.names)
    logging.info("Serving %s: gRPC on %s:%d%s.", names, host, endpoint.port, rest_note)
    return Server(catalogue, endpoint, rest, folders)


class Server:
    """A running server, as `serve` returns it. As a context manager it stops at the end.

    Attributes:
        port: of gRPC.
        rest_port: of REST, or `None`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        endpoint: GrpcEndpoint,
        rest: RestEndpoint | None,
        folders: contextlib.ExitStack,
    ):
        self.port = endpoint.port
        self.rest_port = None if rest is None else rest.port
        self._catalogue = catalogue
        self._endpoint = endpoint
        self._rest = rest
        self._folders = folders
        self._stopped = threading.Event()

    def refresh(self) -> None:
        """Looks for new versions now, and returns when they are loaded."""
        self._catalogue.refresh()

    def stop(self, grace: float = 30.0) -> None:
        """Takes no more requests, lets the running ones finish, and releases the ports.

        Args:
            grace: seconds to wait for running requests. Who still waits after that is told that his
                is cancelled; what the model is computing then is waited for all the same.
        """
        grpc_stopped = self._endpoint.stop(grace)
        if self._rest is not None:
            self._rest.stop(grace)
        grpc_stopped.wait()
        self._catalogue.close()
        self._folders.close()
        self._stopped.set()

    def wait(self) -> None:
        """Blocks until the server has been stopped."""
        self._stopped.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _read_config(path: str | os.PathLike) -> Config:
    config = read_models_config(path)
    if not config.model_config_list.config:
        raise ValueError(f"{os.fspath(path)} names no model.")
    return config


def _check_ports(host: str, port: int, rest_port: int | None) -> None:
    """Raises a plain error before anything is loaded, where gRPC would only say that it failed."""
    if port == rest_port != 0:
        raise _port_error(host, port, "it is given to both gRPC and REST")
    for one in (port, rest_port or 0):
        if not 0 <= one <= 65535:
            raise ValueError(f"A port is 0 … 65535, and 0 picks a free one, but {one} was given.")
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name != "nt")
                probe.bind((host, one))
        except OSError as error:
            raise _port_error(host, one, error.strerror) from error


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _port_error(host: str, port: int, reason: str) -> OSError:
    return OSError(
        f"Cannot listen on {host}, port {port}: {reason}. Choose another port; 0 picks a free one."
    )
