"""The subcommand `server-files`: exported model ─► configuration files for TF Serving."""

import argparse
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_flag, add_overwrite, at_least_1, natural

# Passed on under the same names.
_OPTIONS = ("latest", "base_path", "image", "cores", "max_batch_size", "host", "port", "rest_port")


def add_command(add: Callable) -> None:
    """Adds `elmo-tf server-files`."""
    parser = add(
        "server-files",
        _server_files,
        "write configuration files for TF Serving, Docker Compose and Kubernetes",
        "elmo-tf server-files exported",
    )
    parser.add_argument("directory", metavar="DIR", help="directory written by elmo-tf export")
    parser.add_argument("--name", default="elmo", help="name of the model in requests")
    policy = parser.add_mutually_exclusive_group()
    policy.add_argument("--latest", **at_least_1(1), help="load the newest N versions")
    policy.add_argument(
        "--versions", type=natural, nargs="+", default=(), metavar="N", help="load these versions"
    )
    add_flag(policy, "--all-versions", "load every version")
    parser.add_argument(
        "--label",
        type=_label,
        action="append",
        default=[],
        metavar="LABEL=N",
        help="load version N instead of the newest, with a label, such as stable=1; repeatable",
    )
    parser.add_argument(
        "--base-path", metavar="PATH", help="path in the container (default: /models/NAME)"
    )
    parser.add_argument(
        "--image",
        metavar="IMAGE:TAG",
        help="image (default: tensorflow/serving in the version of tensorflow-serving-api)",
    )
    parser.add_argument(
        "--cores", **at_least_1(), help="cores of the server (default: those of this machine)"
    )
    parser.add_argument(
        "--max-batch-size", **at_least_1(64), help="sentences per batch, and per request"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address that Compose binds the ports to",
    )
    parser.add_argument("--port", **at_least_1(8500), help="gRPC port, in Compose")
    parser.add_argument("--rest-port", **at_least_1(8501), help="REST port, in Compose")
    add_overwrite(parser)


def _label(text: str) -> tuple[str, int]:
    label, separator, version = text.rpartition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"must be LABEL=VERSION, such as stable=1, not {text!r}")
    return label, natural(version)


def _server_files(arguments: Any) -> None:
    from elmo_tf.saved_models.deploy.server_files import write_server_files

    labels = dict(arguments.label)
    if len(labels) < len(arguments.label):
        arguments.refuse_call("--label names a label twice")
    path = write_server_files(
        arguments.directory,
        arguments.name,
        arguments.overwrite,
        versions="all" if arguments.all_versions else arguments.versions,
        labels=labels,
        **{name: getattr(arguments, name) for name in _OPTIONS},
    )
    print(path)
