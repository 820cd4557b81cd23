"""The subcommand `serve`: a server of an exported model."""

import gc
import os
import signal
import sys
import threading
import time
from typing import Annotated

from absl import logging
from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, Port, PositiveInt

from elmo_tf.commands.options import CHECKPOINT, print_json


def serve(
    directory: Annotated[
        str,
        Parameter(
            help="directory written by elmo-tf export; or a checkpoint, which is exported to a "
            f"temporary directory first: {CHECKPOINT}"
        ),
    ],
    /,
    *,
    name: str = "elmo",
    port: Port = 8500,
    rest_port: Port = 8501,
    host: str = "127.0.0.1",
    allowed_hosts: tuple[str, ...] = (),
    grace: NonNegativeFloat = 30.0,
    max_batch_size: PositiveInt = 64,
    max_request_mb: PositiveInt = 8,
    max_tokens: PositiveInt = 65_536,
) -> None:
    """Serve a model over gRPC and REST.

    The server runs until it is interrupted. It needs the extra `serve`. It is for development and
    tests, and answers the same requests as TF Serving. For production use TF Serving:
    examples/serving has its configuration files. There is no authentication and no encryption.

    Args:
        name: name of the model in requests.
        port: gRPC port; 0 picks a free one.
        rest_port: REST and web page port; 0 picks a free one.
        host: address to listen on; 0.0.0.0 accepts connections from other machines.
        allowed_hosts: names of the server in REST requests, beside IP addresses, localhost, the
            name of the machine and --host; `*.example.org` and `*` are allowed.
        grace: seconds that running requests get to finish when the server stops.
        max_batch_size: sentences of several requests that are computed together; 1 computes each
            request alone.
        max_request_mb: limit of a request's size, in MiB, below 2048.
        max_tokens: limit of a request's padded tokens: sentences times tokens of the longest
            sentence.
    """
    from elmo_tf.saved_models.server.batching import Limits
    from elmo_tf.saved_models.server.server import serve

    # The handler only sets a flag: an exception that it raises may be lost.
    received = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    server = serve(
        *(directory, name, port, rest_port, host),
        limits=Limits(max_request_mb * 2**20, max_tokens, max_batch_size),
        allowed_hosts=allowed_hosts,
    )
    gc.freeze()  # garbage collections while large JSON is parsed need not search all modules
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    print_json({"port": server.port, "rest_port": server.rest_port})
    sys.stdout.flush()
    while not received:
        time.sleep(0.1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
    _end_after(grace)
    server.stop(grace)
    logging.info("Stopped.")


def _end_after(grace: float) -> None:
    """Ends the process a second after the grace period, even if the model still computes."""
    timer = threading.Timer(grace + 1.0, os._exit, (0,))
    timer.daemon = True
    timer.start()
