"""The subcommand `serve`: a server of exported models."""

import os
import re
import signal
import sys
import threading
import time

from absl import logging

from elmo_tf.commands.options import CHECKPOINT, print_json, subcommand
from elmo_tf.settings import Count, Natural, NonNegative, Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _ServeOptions:
    directories: Texts = setting(
        is_positional=True,
        metavar="DIR",
        help="directory written by elmo-tf export; or a checkpoint, which is exported to a "
        f"temporary directory first: {CHECKPOINT}; or several models: NAME=DIR NAME2=DIR2",
    )
    name: str = setting("elmo", "name of a single model in requests", metavar="NAME")
    port: Natural = setting(8500, "gRPC port; 0 picks a free one")
    rest_port: Natural = setting(8501, "REST and web page port; 0 picks a free one")
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
    max_batch_size: Count = setting(
        64, "sentences of several requests that are computed together; 1 computes each alone"
    )
    max_request_mb: Count = setting(64, "size of the message, in MiB", group="limits per request")
    max_tokens: Count = setting(
        65_536, "padded tokens: sentences times tokens of the longest sentence"
    )

    def __post_init__(self):
        self.models()

    def models(self) -> str | dict[str, str]:
        """The directory of a single model, or the directories by name."""
        models = [re.fullmatch(r"([\w.-]+)=(.+)", text) for text in self.directories]
        if len(models) == 1 and (models[0] is None or os.path.exists(self.directories[0])):
            return self.directories[0]
        if None in models:
            raise ValueError("several models need names: NAME=DIR NAME2=DIR2")
        directories = {model[1]: model[2] for model in models}
        if len(directories) < len(models):
            raise ValueError("two models have the same name")
        return directories


@subcommand(
    "elmo-tf serve small-en",
    epilog="The server runs until it is interrupted. It needs the extra `serve`. It is for "
    " development and tests, and answers the same requests as TF Serving. For production use TF "
    "Serving: examples/serving has its configuration files. There is no authentication and no "
    "encryption.",
)
def serve(options: _ServeOptions) -> None:
    """Serve models over gRPC and REST."""
    from elmo_tf.saved_models.server.limits import Limits
    from elmo_tf.saved_models.server.server import serve

    # The handler only sets a flag: an exception that it raises may be lost.
    received = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    server = serve(
        options.models(),
        options.name,
        options.port,
        options.rest_port,
        options.host,
        limits=Limits(options.max_request_mb * 2**20, options.max_tokens, options.max_batch_size),
        poll_seconds=options.poll_seconds or None,
    )
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    print_json({"port": server.port, "rest_port": server.rest_port})
    sys.stdout.flush()
    while not received:
        time.sleep(0.1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
    _end_after(options.grace)
    server.stop(options.grace)
    logging.info("Stopped.")


def _end_after(grace: float) -> None:
    """Ends the process a second after the grace period, even if the model still computes."""
    timer = threading.Timer(grace + 1.0, os._exit, (0,))
    timer.daemon = True
    timer.start()
