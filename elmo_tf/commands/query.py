"""The subcommand `query`: sentences ─► server ─► vectors."""

import sys
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveFloat

from elmo_tf.commands.options import STDIN, print_json


def query(
    address: str,
    sentences: Annotated[
        tuple[str, ...],
        Parameter(
            help="whitespace-separated tokens; without sentences, or with -, each line of stdin is "
            "a sentence, and one JSON line is printed per sentence"
        ),
    ] = (),
    /,
    *,
    model: str = "elmo",
    output: tuple[str, ...] = ("elmo",),
    signature: str | None = None,
    version: NonNegativeInt | None = None,
    timeout: PositiveFloat = 60.0,
) -> None:
    """Request the vectors of sentences from a model server.

    Args:
        address: host:port or grpcs://host:port of the server's gRPC.
        model: name of the model.
        output: elmo, default (sentence vectors), word_emb, …; several are allowed.
        signature: signature; by default serving_default.
        version: model version; by default the server's.
        timeout: seconds; for sentences from stdin, per request.
    """
    from elmo_tf.saved_models.client.client import Client
    from elmo_tf.text.counting import KnownText, reported_sentences
    from elmo_tf.text.reading import sentence_lines

    outputs = output or ("elmo",)
    reads_stdin = sentences in ((), (STDIN,))
    # Typed lines are answered one by one; piped lines are sent in batches, which is faster.
    is_typed = reads_stdin and sys.stdin.isatty()
    with Client(
        address,
        model,
        timeout,
        version,
        **({"batch_size": 1} if is_typed else {}),
    ) as client:
        if not reads_stdin:
            sentences = list(reported_sentences(sentences, KnownText()))
            answer = client.predict(sentences, outputs, signature)
            print_json(_jsonable(answer))
            return
        in_flight = {"in_flight": 1} if is_typed else {}
        lines = (line.rstrip("\r\n") for line in sentence_lines(sys.stdin.buffer))
        lines = reported_sentences(lines, KnownText())
        for answer in client.stream(lines, outputs, signature, **in_flight):
            print_json(_jsonable(answer))
            sys.stdout.flush()


def _jsonable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: _decoded(array.tolist()) for name, array in answer.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
