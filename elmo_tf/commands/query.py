"""The subcommand `query`: sentences ─► server ─► vectors."""

import sys
from typing import Any

from elmo_tf.commands.options import print_json, subcommand
from elmo_tf.settings import Natural, Positive, Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _QueryOptions:
    address: str = setting(
        is_positional=True,
        metavar="ADDRESS",
        help="host:port or grpcs://host:port of the server's gRPC",
    )
    sentences: tuple[str, ...] = setting(
        (),
        "whitespace-separated tokens; without sentences, or with -, each line of stdin is a "
        "sentence, and one JSON line is printed per sentence",
        is_positional=True,
        metavar="SENTENCE",
    )
    model: str = setting("elmo", "name of the model", metavar="NAME")
    output: Texts = setting(
        ("elmo",),
        "elmo, default (sentence vectors), word_emb, …; repeatable",
        is_repeatable=True,
        metavar="NAME",
        default_help="elmo",
    )
    signature: str | None = setting(
        None, "signature", metavar="NAME", default_help="serving_default"
    )
    version: Natural | None = setting(None, "model version", default_help="the server's default")
    timeout: Positive = setting(60.0, "timeout; for sentences from stdin, per request")
    tls_ca: str | None = setting(None, "CA certificates of the server, in PEM format")


@subcommand("elmo-tf query localhost:8500 'The bank of the river' --output default")
def query(options: _QueryOptions) -> None:
    """Request the vectors of sentences from a model server."""
    from elmo_tf.saved_models.client.client import Client
    from elmo_tf.text.input_warnings import warn_of_raw_text
    from elmo_tf.text.reading import sentence_lines

    outputs = options.output or ("elmo",)
    reads_stdin = options.sentences in ((), ("-",))
    # Typed lines are answered one by one; piped lines are sent in batches, which is faster.
    is_typed = reads_stdin and sys.stdin.isatty()
    with Client(
        options.address,
        options.model,
        options.timeout,
        options.version,
        root_certificates=options.tls_ca,
        **({"batch_size": 1} if is_typed else {}),
    ) as client:
        if not reads_stdin:
            sentences = list(warn_of_raw_text(options.sentences))
            answer = client.predict(sentences, outputs, options.signature)
            print_json(_jsonable(answer))
            return
        in_flight = {"in_flight": 1} if is_typed else {}
        lines = (line.rstrip("\r\n") for line in sentence_lines(sys.stdin.buffer))
        lines = warn_of_raw_text(lines)
        for answer in client.stream(lines, outputs, options.signature, **in_flight):
            print_json(_jsonable(answer))
            sys.stdout.flush()


def _jsonable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: _decoded(array.tolist()) for name, array in answer.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
