"""The embedded server: an exported model over TF Serving's protocols, for development and tests."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent import futures
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.formats import Source
from elmo_tf.checkpoints.load import open_checkpoint
from elmo_tf.saved_models.exporting.export import export, versions_in
from elmo_tf.saved_models.server.batching import Limits
from elmo_tf.saved_models.server.grpc_endpoint import GrpcEndpoint
from elmo_tf.saved_models.server.model import ServedModel
from elmo_tf.saved_models.server.rest_endpoint import RestEndpoint
from elmo_tf.settings import as_tuple

_ACCEPT_SECONDS = 0.1


def serve(
    directory: Source,
    name: str = "elmo",
    port: int = 8500,
    rest_port: int = 8501,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    allowed_hosts: Iterable[str] = (),
) -> "Server":
    """Serves an exported model over gRPC and REST, without blocking.

    The newest version is loaded, and replaced when a newer one appears in `directory`. For several
    models or versions at a time, use TF Serving.

    Args:
        directory: holds the versions in numbered folders (`directory/1/saved_model.pb`). A
            checkpoint (see `load_bilm`) is first exported into a temporary folder.
        name: the model's name in requests.
        port: of gRPC. 0 picks a free one.
        rest_port: of REST and of the page at `/`. 0 picks a free one.
        host: address to listen on. The default accepts connections from this machine only,
            `"0.0.0.0"` from everywhere. There is no authentication and no encryption.
        limits: of a request and of a batch, a `saved_models.server.batching.Limits`.
        allowed_hosts: names of the server in REST requests, beside IP addresses, `localhost`, the
            name of the machine and `host`. `"*.example.org"` and `"*"` are allowed.

    Returns:
        A `Server` that accepts requests. Keep a reference to it: otherwise gRPC stops.

    Raises:
        OSError: the REST port is not available, or `directory` holds no version or checkpoint.
        ValueError: a port is not between 0 and 65535, or `directory` is one version.
        RuntimeError: the gRPC port is not available.
        tf.errors.OpError, OSError: a version cannot be loaded, or its file is damaged.
    """
    if not all(0 <= each < 2**16 for each in (port, rest_port)):
        raise ValueError(f"Ports must be between 0 and 65535. Received: {port}, {rest_port}")
    url_host = f"[{host}]" if ":" in host else host
    server = Server()
    try:
        folder = server._cleanup.enter_context(_exported_versions(directory))
        model = ServedModel(name, folder, limits or Limits())
        server._cleanup.callback(model.close)
        model.load()
        server._endpoints.append(GrpcEndpoint(model, f"{url_host}:{port}"))
        server.port = server._endpoints[0].port
        server._endpoints.append(RestEndpoint(model, host, rest_port, as_tuple(allowed_hosts)))
        server.rest_port = server._endpoints[1].port
    except BaseException:
        server.stop(0)
        raise
    model.watch()
    logging.info("Serving %s: gRPC on %s:%d.", name, url_host, server.port)
    logging.info("REST and a web page are on http://%s:%d.", url_host, server.rest_port)
    return server


class Server(contextlib.AbstractContextManager):
    """A running server, with the attributes `port` and `rest_port`, which stops on exit."""

    def __init__(self):
        self.port = self.rest_port = 0
        self._endpoints: list[GrpcEndpoint | RestEndpoint] = []
        self._cleanup = contextlib.ExitStack()  # closes the model, removes a temporary export

    def stop(self, grace: float = 30.0) -> None:
        """Rejects new requests, finishes the running ones, and releases the ports.

        Args:
            grace: seconds to wait for running requests. Requests that take longer are cancelled,
                but a computation in progress is completed before `stop` returns.
        """
        # First accepts the received requests: longer while other threads keep Python's lock.
        for _ in range(10 if self._endpoints else 0):
            begun = time.monotonic()
            time.sleep(_ACCEPT_SECONDS)
            if time.monotonic() - begun < 2 * _ACCEPT_SECONDS:
                break
        with futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda endpoint: endpoint.stop(grace), self._endpoints))
        self._endpoints.clear()
        self._cleanup.close()

    def __exit__(self, *exception: object) -> None:
        self.stop()


@contextlib.contextmanager
def _exported_versions(source: Source) -> Iterator[Path]:
    """Yields a folder of exported versions: `source`, or a temporary export of a checkpoint."""
    if isinstance(source, str | os.PathLike) and versions_in(Path(source)):
        yield Path(source)
        return
    if isinstance(source, str | os.PathLike) and Path(source, "saved_model.pb").is_file():
        raise ValueError(f"{source} is one version. Pass {Path(source).absolute().parent}.")
    with tempfile.TemporaryDirectory(prefix="elmo_tf-") as folder:
        with open_checkpoint(source) as checkpoint:
            logging.info("%s is a checkpoint: exporting it first, which takes a while.", source)
            bilm, vocabulary = checkpoint.bilm(), checkpoint.vocabulary()
        export(bilm, folder, vocabulary=vocabulary, check=False)
        yield Path(folder)
