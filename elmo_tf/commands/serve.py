"""The subcommand `serve`: exported models ─► answers over the network."""

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import MODELS, natural, not_negative, positive, print_json

_EPILOG = (
    "This server is for the desk and for tests. It answers as TF Serving does, which is what to "
    "run for many users."
)


def add_command(add: Callable) -> None:
    """`elmo-tf serve`."""
    parser = add(
        "serve",
        _serve,
        "serve exported models over gRPC and REST, until interrupted",
        "elmo-tf serve small-en",
    )
    parser.epilog = _EPILOG
    served = parser.add_mutually_exclusive_group(required=True)
    served.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="what elmo-tf export wrote; or a checkpoint or the name of a model, which is exported "
        f"into a temporary folder first: {MODELS}",
    )
    served.add_argument(
        "--models-config",
        metavar="FILE",
        help="TF Serving's models.config, in place of DIR: several models, versions, labels",
    )
    parser.add_argument("--name", default="elmo", help="what requests call the model (elmo)")
    parser.add_argument("--port", type=natural, default=8500, help="of gRPC; 0: any (8500)")
    parser.add_argument(
        "--rest-port",
        type=natural,
        default=8501,
        help="of REST, and of a page for browsers; 0: any (8501)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (127.0.0.1)"
    )
    parser.add_argument(
        "--poll-seconds",
        type=not_negative,
        default=1.0,
        metavar="SECONDS",
        help="between looks for new versions; 0: never (1)",
    )
    parser.add_argument(
        "--grace",
        type=not_negative,
        default=30.0,
        metavar="SECONDS",
        help="that running requests get to finish when the server is stopped (30)",
    )
    parser.add_argument(
        "--monitoring-config",
        metavar="FILE",
        help="TF Serving's monitoring.config: the path of Prometheus's metrics",
    )
    parser.add_argument(
        "--access-log", action="store_true", help="log a line to stderr for each request"
    )
    _add_batching(parser.add_argument_group("batching"))
    _add_limits(parser.add_argument_group("limits of a request"))


def _add_batching(group: Any) -> None:
    either = group.add_mutually_exclusive_group()
    either.add_argument("--no-batching", action="store_true", help="compute each request by itself")
    either.add_argument(
        "--batching-parameters",
        metavar="FILE",
        help="TF Serving's batching_parameters.txt; the two options below go before it",
    )
    group.add_argument(
        "--max-batch-size", type=positive, metavar="N", help="sentences computed together (64)"
    )
    group.add_argument(
        "--batch-timeout-micros",
        type=natural,
        metavar="N",
        help="that a request may wait for others while the model is idle (0)",
    )


def _add_limits(group: Any) -> None:
    group.add_argument(
        "--max-request-mb", type=positive, default=64, metavar="N", help="MiB of its message (64)"
    )
    group.add_argument(
        "--max-sentences", type=positive, default=4096, metavar="N", help="its rows (4096)"
    )
    group.add_argument(
        "--max-tokens",
        type=positive,
        default=65_536,
        metavar="N",
        help="sentences times the tokens of the longest (65536)",
    )


def _serve(arguments: Any) -> None:
    from elmo_tf.saved_models.server.limits import Limits
    from elmo_tf.saved_models.server.server import serve

    # TERM ends the server as Ctrl-C does: requests that are running are answered.
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
    """Ends the process a little later, whatever the model is still computing for nobody."""
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
    from elmo_tf.saved_models.config_protos import read_monitoring_config
    from elmo_tf.saved_models.server.server import METRICS_PATH

    if path is None:
        return METRICS_PATH
    config = read_monitoring_config(path).prometheus_config
    return (config.path or METRICS_PATH) if config.enable else None
