"""The subcommand `serve`: a server of exported models."""

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import (
    CHECKPOINT,
    add_flag,
    at_least_0,
    at_least_1,
    not_negative,
    print_json,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf serve`."""
    parser = add("serve", _serve, "serve models over gRPC and REST", "elmo-tf serve small-en")
    parser.epilog = (
        "The server runs until it is interrupted. It is meant for development and tests, and "
        "answers the same requests as TF Serving. For production use TF Serving: elmo-tf "
        "server-files writes its configuration. There is no authentication and no encryption."
    )
    served = parser.add_mutually_exclusive_group(required=True)
    served.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="directory written by elmo-tf export; or a checkpoint, which is exported to a "
        f"temporary directory first: {CHECKPOINT}",
    )
    served.add_argument(
        "--models-config",
        metavar="FILE",
        help="TF Serving models.config, to serve several models, versions and labels",
    )
    parser.add_argument("--name", default="elmo", help="name of the model in requests")
    parser.add_argument("--port", **at_least_0(8500), help="gRPC port; 0 picks a free one")
    parser.add_argument(
        "--rest-port", **at_least_0(8501), help="REST and web page port; 0 picks a free one"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 accepts connections from other machines",
    )
    parser.add_argument(
        "--poll-seconds",
        type=not_negative,
        default=1.0,
        metavar="SECONDS",
        help="seconds between checks for new versions; 0 disables them",
    )
    parser.add_argument(
        "--grace",
        type=not_negative,
        default=30.0,
        metavar="SECONDS",
        help="seconds that running requests get to finish when the server stops",
    )
    parser.add_argument(
        "--monitoring-config",
        metavar="FILE",
        help="TF Serving monitoring.config, with the path of the Prometheus metrics",
    )
    add_flag(parser, "--access-log", "log each request to stderr")
    _add_batching(parser.add_argument_group("batching (the last two options override the file)"))
    limits = parser.add_argument_group("limits per request")
    limits.add_argument("--max-request-mb", **at_least_1(64), help="size of the message, in MiB")
    limits.add_argument("--max-sentences", **at_least_1(4096), help="number of sentences")
    limits.add_argument(
        "--max-tokens",
        **at_least_1(65_536),
        help="padded tokens: sentences times tokens of the longest sentence",
    )


def _add_batching(group: Any) -> None:
    either = group.add_mutually_exclusive_group()
    add_flag(either, "--no-batching", "compute requests one by one")
    either.add_argument(
        "--batching-parameters",
        metavar="FILE",
        help="TF Serving batching_parameters.txt",
    )
    group.add_argument("--max-batch-size", **at_least_1(), help="sentences per batch (default: 64)")
    group.add_argument(
        "--batch-timeout-micros",
        **at_least_0(),
        help="longest wait for more requests while the model is idle, in microseconds (default: 0)",
    )


def _serve(arguments: Any) -> None:
    from elmo_tf.saved_models.server.limits import Limits
    from elmo_tf.saved_models.server.server import serve

    # SIGTERM ends the server like Ctrl-C: running requests are answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = serve(
            arguments.directory,
            arguments.name,
            arguments.port,
            arguments.rest_port,
            arguments.host,
            models_config=arguments.models_config,
            batching=_batching(arguments),
            limits=Limits(
                arguments.max_request_mb * 2**20, arguments.max_sentences, arguments.max_tokens
            ),
            poll_seconds=arguments.poll_seconds or None,
            metrics_path=_metrics_path(arguments.monitoring_config),
            access_log=arguments.access_log,
        )
        try:
            print_json({"port": server.port, "rest_port": server.rest_port})
            sys.stdout.flush()
            server.wait()
        finally:
            _end_after(arguments.grace)
            server.stop(arguments.grace)
    except KeyboardInterrupt:
        logging.info("Stopped.")


def _end_after(grace: float) -> None:
    """Ends the process a second after the grace period, even if the model still computes."""
    timer = threading.Timer(grace + 1.0, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _batching(arguments: Any) -> Any:
    from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING, Batching

    if arguments.no_batching:
        return None
    batching = DEFAULT_BATCHING
    if arguments.batching_parameters is not None:
        batching = Batching.of_file(arguments.batching_parameters)
    given = {
        name: getattr(arguments, name)
        for name in ("max_batch_size", "batch_timeout_micros")
        if getattr(arguments, name) is not None
    }
    return dataclasses.replace(batching, **given)


def _metrics_path(path: str | os.PathLike | None) -> str | None:
    from elmo_tf.saved_models.config_protos import METRICS_PATH, read_monitoring_config

    if path is None:
        return METRICS_PATH
    config = read_monitoring_config(path).prometheus_config
    return (config.path or METRICS_PATH) if config.enable else None
