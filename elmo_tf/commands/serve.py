"""The subcommand `serve`: a server of exported models."""

import dataclasses
import os
import signal
import sys
import threading
from typing import Any, ClassVar

from absl import logging

from elmo_tf.commands.options import CHECKPOINT, print_json, subcommand
from elmo_tf.settings import Count, Natural, NonNegative, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _ServeOptions:
    EXCLUSIVE: ClassVar = (
        ("directory", "models_config"),
        ("no_batching", "batching_parameters"),
    )

    directory: str | None = setting(
        None,
        "directory written by elmo-tf export; or a checkpoint, which is exported to a temporary "
        f"directory first: {CHECKPOINT}",
        is_positional=True,
        metavar="DIR",
    )
    models_config: str | None = setting(
        None, "TF Serving models.config, to serve several models, versions and labels"
    )
    name: str = setting("elmo", "name of the model in requests", metavar="NAME")
    port: int = setting(8500, "gRPC port; 0 picks a free one", ge=0)
    rest_port: int = setting(8501, "REST and web page port; 0 picks a free one", ge=0)
    host: str = setting(
        "127.0.0.1",
        "address to listen on; 0.0.0.0 accepts connections from other machines",
        metavar="ADDRESS",
    )
    poll_seconds: NonNegative = setting(
        1.0, "seconds between checks for new versions; 0 disables them"
    )
    grace: NonNegative = setting(
        30.0, "seconds that running requests get to finish when the server stops"
    )
    monitoring_config: str | None = setting(
        None, "TF Serving monitoring.config, with the path of the Prometheus metrics"
    )
    access_log: bool = setting(False, "log each request to stderr")
    no_batching: bool = setting(
        False,
        "compute requests one by one",
        group="batching (the last two options override the file)",
    )
    batching_parameters: str | None = setting(None, "TF Serving batching_parameters.txt")
    max_batch_size: Count | None = setting(None, "sentences per batch", default_help="64")
    batch_timeout_micros: Natural | None = setting(
        None,
        "longest wait for more requests while the model is idle, in microseconds",
        default_help="0",
    )
    max_request_mb: Count = setting(64, "size of the message, in MiB", group="limits per request")
    max_sentences: int = setting(4096, "number of sentences", ge=1)
    max_tokens: Count = setting(
        65_536, "padded tokens: sentences times tokens of the longest sentence"
    )

    def __post_init__(self):
        if self.directory is None and self.models_config is None:
            raise ValueError("one of the options DIR --models-config is required")


@subcommand(
    "elmo-tf serve small-en",
    epilog="The server runs until it is interrupted. It is meant for development and tests, and "
    "answers the same requests as TF Serving. For production use TF Serving. "
    "There is no authentication and no encryption.",
)
def serve(options: _ServeOptions) -> None:
    """Serve models over gRPC and REST."""
    from elmo_tf.saved_models.server.limits import Limits
    from elmo_tf.saved_models.server.server import serve

    # SIGTERM ends the server like Ctrl-C: running requests are answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = serve(
            options.directory,
            options.name,
            options.port,
            options.rest_port,
            options.host,
            models_config=options.models_config,
            batching=_batching(options),
            limits=Limits(
                options.max_request_mb * 2**20, options.max_sentences, options.max_tokens
            ),
            poll_seconds=options.poll_seconds or None,
            metrics_path=_metrics_path(options.monitoring_config),
            access_log=options.access_log,
        )
        try:
            print_json({"port": server.port, "rest_port": server.rest_port})
            sys.stdout.flush()
            server.wait()
        finally:
            _end_after(options.grace)
            server.stop(options.grace)
    except KeyboardInterrupt:
        logging.info("Stopped.")


def _end_after(grace: float) -> None:
    """Ends the process a second after the grace period, even if the model still computes."""
    timer = threading.Timer(grace + 1.0, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _batching(options: Any) -> Any:
    from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING, Batching

    if options.no_batching:
        return None
    batching = DEFAULT_BATCHING
    if options.batching_parameters is not None:
        batching = Batching.of_file(options.batching_parameters)
    given = {
        name: getattr(options, name)
        for name in ("max_batch_size", "batch_timeout_micros")
        if getattr(options, name) is not None
    }
    return dataclasses.replace(batching, **given)


def _metrics_path(path: str | os.PathLike | None) -> str | None:
    from elmo_tf.saved_models.config_protos import METRICS_PATH, read_monitoring_config

    if path is None:
        return METRICS_PATH
    config = read_monitoring_config(path).prometheus_config
    return (config.path or METRICS_PATH) if config.enable else None
