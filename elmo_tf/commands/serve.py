"""The subcommand `serve`: a server of exported models."""

import os
import re
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
        "answers the same requests as TF Serving. For production, version labels and version "
        "policies use TF Serving: examples/serving has its configuration files. There is no "
        "authentication and no encryption."
    )
    parser.add_argument(
        "directories",
        nargs="+",
        metavar="DIR",
        help="directory written by elmo-tf export; or a checkpoint, which is exported to a "
        f"temporary directory first: {CHECKPOINT}; or several models: NAME=DIR NAME2=DIR2",
    )
    parser.add_argument("--name", default="elmo", help="name of a single model in requests")
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
    add_flag(parser, "--access-log", "log each request to stderr")
    batching = parser.add_argument_group("batching")
    add_flag(batching, "--no-batching", "compute requests one by one")
    batching.add_argument("--max-batch-size", **at_least_1(64), help="sentences per batch")
    batching.add_argument(
        "--batch-timeout-micros",
        **at_least_0(0),
        help="longest wait for more requests while the model is idle, in microseconds",
    )
    limits = parser.add_argument_group("limits per request")
    limits.add_argument("--max-request-mb", **at_least_1(64), help="size of the message, in MiB")
    limits.add_argument("--max-sentences", **at_least_1(4096), help="number of sentences")
    limits.add_argument(
        "--max-tokens",
        **at_least_1(65_536),
        help="padded tokens: sentences times tokens of the longest sentence",
    )


def _serve(arguments: Any) -> None:
    from elmo_tf.saved_models.server.batching import Batching
    from elmo_tf.saved_models.server.limits import Limits
    from elmo_tf.saved_models.server.server import serve

    batching = None
    if not arguments.no_batching:
        batching = Batching(arguments.max_batch_size, arguments.batch_timeout_micros)
    # SIGTERM ends the server like Ctrl-C: running requests are answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server = serve(
            _directories(arguments),
            arguments.name,
            arguments.port,
            arguments.rest_port,
            arguments.host,
            batching=batching,
            limits=Limits(
                arguments.max_request_mb * 2**20, arguments.max_sentences, arguments.max_tokens
            ),
            poll_seconds=arguments.poll_seconds or None,
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


def _directories(arguments: Any) -> str | dict[str, str]:
    """Returns the directory of a single model, or the directories by name."""
    models = [re.fullmatch(r"([\w.-]+)=(.+)", text) for text in arguments.directories]
    if len(models) == 1 and (models[0] is None or os.path.exists(arguments.directories[0])):
        return arguments.directories[0]
    if None in models:
        arguments.refuse_call("several models need names: NAME=DIR NAME2=DIR2")
    directories = {model[1]: model[2] for model in models}
    if len(directories) < len(models):
        arguments.refuse_call("two models have the same name")
    return directories
