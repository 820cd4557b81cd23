"""The subcommand `query`: sentences ─► server ─► vectors."""

import logging
import sys
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import at_least_0, positive_float, print_json


def add_command(add: Callable) -> None:
    """Adds `elmo-tf query`."""
    parser = add(
        "query",
        _query,
        "request the vectors of sentences from a model server",
        "elmo-tf query localhost:8500 'The bank of the river' --output default",
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="host:port or grpcs://host:port (gRPC), http(s)://host:port (REST)",
    )
    parser.add_argument(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="whitespace-separated tokens; without sentences, or with -, each line of stdin is a "
        "sentence, and one JSON line is printed per sentence",
    )
    parser.add_argument("--model", default="elmo", metavar="NAME", help="name of the model")
    parser.add_argument(
        "--output",
        action="append",
        metavar="NAME",
        help="elmo, default (sentence vectors), word_emb, …; repeatable (default: elmo)",
    )
    parser.add_argument("--signature", metavar="NAME", help="signature (default: serving_default)")
    parser.add_argument(
        "--version", **at_least_0(), help="model version (default: the server's default)"
    )
    parser.add_argument(
        "--timeout",
        type=positive_float,
        default=60.0,
        metavar="SECONDS",
        help="timeout; for sentences from stdin, per request",
    )
    parser.add_argument(
        "--tls-ca", metavar="FILE", help="CA certificates of the server, in PEM format"
    )


def _query(arguments: Any) -> None:
    from elmo_tf.saved_models.client.client import Client
    from elmo_tf.text.vocabulary import sentence_lines

    # Retries are not worth a line: only the last error is.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    outputs = arguments.output or ("elmo",)
    reads_stdin = arguments.sentences in ([], ["-"])
    # Typed lines are answered one by one; piped lines are sent in batches, which is faster.
    is_typed = reads_stdin and sys.stdin.isatty()
    with Client(
        arguments.address,
        arguments.model,
        arguments.timeout,
        arguments.version,
        root_certificates=arguments.tls_ca,
        **({"batch_size": 1} if is_typed else {}),
    ) as client:
        if not reads_stdin:
            answer = client.predict(arguments.sentences, outputs, arguments.signature)
            print_json(_jsonable(answer))
            return
        in_flight = {"in_flight": 1} if is_typed else {}
        lines = (line.rstrip("\r\n") for line in sentence_lines(sys.stdin.buffer))
        for answer in client.stream(lines, outputs, arguments.signature, **in_flight):
            print_json(_jsonable(answer))
            sys.stdout.flush()


def _jsonable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: _decoded(array.tolist()) for name, array in answer.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
