"""The embedded server: exported models over TF Serving's protocols, for development and tests."""

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from concurrent import futures
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.formats import Source
from elmo_tf.checkpoints.load import is_checkpoint, open_checkpoint
from elmo_tf.checkpoints.named_models import brief_names
from elmo_tf.saved_models.exporting.export import export, versions_in
from elmo_tf.saved_models.server.batching import Limits
from elmo_tf.saved_models.server.grpc_endpoint import GrpcEndpoint
from elmo_tf.saved_models.server.models import Models
from elmo_tf.saved_models.server.rest_endpoint import RestEndpoint


def serve(
    directory: Source | Mapping[str, Source],
    name: str = "elmo",
    port: int = 8500,
    rest_port: int | None = 8501,
    host: str = "127.0.0.1",
    *,
    limits: Limits | None = None,
    poll_seconds: float | None = 1.0,
) -> "Server":
    """Serves exported models over gRPC and REST, without blocking.

    The newest version is loaded, and replaced when a newer one appears in `directory`. For several
    versions at a time, labels and configuration files, use TF Serving.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`). A
            checkpoint or the name of a model (see `load_bilm`) is first exported into a temporary
            folder. For several models, a dict from their names to their directories.
        name: the model's name in requests, if `directory` is no dict.
        port: of gRPC. 0 picks a free one.
        rest_port: of REST and of the page at `/`. 0 picks a free one, `None` disables REST.
        host: address to listen on. The default accepts connections from this machine only,
            `"0.0.0.0"` from everywhere. There is no authentication and no encryption.
        limits: of a request and of a batch, a `saved_models.server.batching.Limits`.
        poll_seconds: between checks for new versions; `None` disables them.

    Returns:
        A `Server` that accepts requests. Keep a reference to it: otherwise gRPC stops.

    Raises:
        FileNotFoundError: a directory does not exist or holds no version.
        OSError: a port is not available, or a version cannot be read.
        ValueError: a port is not in 0 to 65535.
        tf.errors.OpError: a version cannot be loaded.
    """
    _check_ports(host, port, rest_port)
    sources = directory if isinstance(directory, Mapping) else {name: directory}
    for source in sources.values():
        _has_versions(source)
    url_host = f"[{host}]" if ":" in host else host
    server = Server()
    try:
        folders = {
            name: server._cleanup.enter_context(_exported_versions(source))
            for name, source in sources.items()
        }
        models = Models(folders, limits or Limits())
        server._cleanup.callback(models.close)
        models.load()
        server._endpoints.append(GrpcEndpoint(models, f"{url_host}:{port}"))
        server.port = server._endpoints[0].port
        if rest_port is not None:
            server._endpoints.append(RestEndpoint(models, host, rest_port))
            server.rest_port = server._endpoints[1].port
    except BaseException:
        server.stop(0)
        raise
    if poll_seconds is not None:
        models.watch(poll_seconds)
    logging.info("Serving %s: gRPC on %s:%d.", ", ".join(models.names), url_host, server.port)
    if rest_port is not None:
        logging.info("REST and a web page are on http://%s:%d.", url_host, server.rest_port)
    return server


class Server:
    """A running server, returned by `serve`. As a context manager it stops on exit.

    Attributes:
        port: of gRPC.
        rest_port: of REST, or `None`.
    """

    def __init__(self):
        self.port: int | None = None
        self.rest_port: int | None = None
        self._endpoints: list[GrpcEndpoint | RestEndpoint] = []
        self._cleanup = contextlib.ExitStack()  # closes the models, removes temporary exports

    def stop(self, grace: float = 30.0) -> None:
        """Rejects new requests, finishes the running ones, and releases the ports.

        Args:
            grace: seconds to wait for running requests. Requests that take longer are cancelled,
                but a computation in progress is completed before `stop` returns.
        """
        with futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda endpoint: endpoint.stop(grace), self._endpoints))
        self._endpoints.clear()
        self._cleanup.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _check_ports(host: str, *ports: int | None) -> None:
    """Checks the ports before a model is loaded; gRPC's own error does not name the reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as probes:  # open at the same time: the ports must differ
        for port in ports:
            if port is None:
                continue
            if not 0 <= port <= 65535:
                raise ValueError(
                    f"A port must be 0 to 65535 (0 picks a free one). Received: {port}"
                )
            try:
                probes.enter_context(socket.create_server((host, port), family=family))
            except OSError as error:
                raise OSError(
                    f"Cannot listen on {host}, port {port} ({error}). Choose another port; 0 picks "
                    "a free one."
                ) from error


def _has_versions(source: Source) -> bool:
    """Whether a source is a folder of versions; it is a `FileNotFoundError` if it is nothing."""
    if isinstance(source, str | os.PathLike) and versions_in(Path(source)):
        return True
    if not is_checkpoint(source):
        raise FileNotFoundError(
            f"Cannot serve {source}: neither a checkpoint nor a folder of numbered versions, such "
            f"as {Path(source, '1/saved_model.pb')}. Models: {brief_names()}."
        )
    return False


@contextlib.contextmanager
def _exported_versions(source: Source) -> Iterator[Path]:
    """Yields a folder of exported versions: `source`, or a temporary export of a checkpoint."""
    if _has_versions(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="elmo_tf-") as folder:
        logging.info("%s is a checkpoint: exporting it first, which takes a while.", source)
        with open_checkpoint(source) as checkpoint:
            bilm, vocabulary = checkpoint.bilm(), checkpoint.vocabulary()
        export(bilm, folder, vocabulary=vocabulary, check=False)
        yield Path(folder)
