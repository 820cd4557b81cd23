"""The subcommand `query`: sentences ─► server ─► vectors."""

import sys
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import natural, positive_float, print_json


def add_command(add: Callable) -> None:
    """`elmo-tf query`."""
    parser = add(
        "query",
        _query,
        "ask a model server for the vectors of sentences",
        "elmo-tf query localhost:8500 'The bank of the river' --output default",
    )
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="host:port of the server's gRPC, with grpcs:// before it for TLS; or "
        "http://host:port or https://host:port of its REST interface",
    )
    parser.add_argument(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="split at white space; none, or -: the lines of stdin, and a line of JSON for each",
    )
    parser.add_argument("--model", default="elmo", help="what the server calls it (elmo)")
    parser.add_argument(
        "--output",
        action="append",
        metavar="NAME",
        help="elmo, default, word_emb, lstm_outputs1, …; may be repeated (elmo)",
    )
    parser.add_argument("--signature", metavar="NAME", help="what to ask (serving_default)")
    parser.add_argument(
        "--version", type=natural, metavar="N", help="of the model (the one that the server likes)"
    )
    parser.add_argument(
        "--timeout", type=positive_float, default=60.0, metavar="SECONDS", help="(60)"
    )
    parser.add_argument(
        "--tls-ca", metavar="FILE", help="certificates in PEM that vouch for the server"
    )


def _query(arguments: Any) -> None:
    from elmo_tf.saved_models.client.client import Client
    from elmo_tf.text.vocabulary import read_lines

    outputs = arguments.output or ("elmo",)
    reads_stdin = arguments.sentences in ([], ["-"])
    # Who types a line waits for its answer; a file is better asked about in larger pieces.
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
        lines = (line.rstrip("\r\n") for line in read_lines(sys.stdin.buffer))
        for answer in client.stream(lines, outputs, arguments.signature, **in_flight):
            print_json(_jsonable(answer))
            sys.stdout.flush()


def _jsonable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: _decoded(array.tolist()) for name, array in answer.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
