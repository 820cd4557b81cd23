"""The subcommand `server-files`: exported model ─► what the stock TF Serving needs to serve it."""

import argparse
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_overwrite, natural, positive


def add_command(add: Callable) -> None:
    """`elmo-tf server-files`."""
    parser = add(
        "server-files",
        _server_files,
        "write what the stock TF Serving needs for an exported model: its configuration, a Compose "
        "file, Kubernetes manifests",
        "elmo-tf server-files exported",
    )
    parser.add_argument("directory", metavar="DIR", help="what elmo-tf export wrote")
    parser.add_argument("--name", default="elmo", help="what requests call the model (elmo)")
    policy = parser.add_mutually_exclusive_group()
    policy.add_argument(
        "--latest", type=positive, default=1, metavar="N", help="load the newest N versions (1)"
    )
    policy.add_argument(
        "--versions", type=natural, nargs="+", default=(), metavar="N", help="load these versions"
    )
    policy.add_argument("--all-versions", action="store_true", help="load every version")
    parser.add_argument(
        "--label",
        type=_label,
        action="append",
        default=[],
        metavar="LABEL=N",
        help="a name for a version, which is loaded then; may be repeated",
    )
    parser.add_argument("--base-path", metavar="PATH", help="in the container (/models/NAME)")
    parser.add_argument(
        "--image", metavar="IMAGE:TAG", help="(tensorflow/serving of the installed serving API)"
    )
    parser.add_argument(
        "--cores", type=positive, metavar="N", help="of the server (those of this machine)"
    )
    parser.add_argument(
        "--max-batch-size",
        type=positive,
        default=64,
        metavar="N",
        help="sentences computed together, and in a request, at most (64)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address that Compose binds ports to (127.0.0.1)"
    )
    parser.add_argument("--port", type=positive, default=8500, help="of gRPC, in Compose (8500)")
    parser.add_argument(
        "--rest-port", type=positive, default=8501, help="of REST, in Compose (8501)"
    )
    add_overwrite(parser)


def _label(text: str) -> tuple[str, int]:
    label, separator, version = text.rpartition("=")
    if not separator:
        raise argparse.ArgumentTypeError(
            f"must be a label and a version, as stable=1, not {text!r}"
        )
    return label, natural(version)


def _server_files(arguments: Any) -> None:
    from elmo_tf.saved_models.deploy.server_files import write_server_files

    path = write_server_files(
        arguments.directory,
        arguments.name,
        arguments.overwrite,
        latest=arguments.latest,
        versions="all" if arguments.all_versions else arguments.versions,
        labels=dict(arguments.label),
        base_path=arguments.base_path,
        image=arguments.image,
        cores=arguments.cores,
        max_batch_size=arguments.max_batch_size,
        host=arguments.host,
        port=arguments.port,
        rest_port=arguments.rest_port,
    )
    print(path)
