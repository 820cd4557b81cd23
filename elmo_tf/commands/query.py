"""The subcommand `query`: sentences ─► server ─► vectors."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import PositiveFloat

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
    timeout: PositiveFloat = 60.0,
) -> None:
    """Request the vectors of sentences from a model server.

    Args:
        address: host:port or grpcs://host:port of the server's gRPC.
        model: name of the model.
        output: elmo, default (sentence vectors), word_emb, …; several are allowed.
        signature: signature; by default serving_default.
        timeout: seconds; for sentences from stdin, per sentence.
    """
    from elmo_tf.saved_models.client import Client
    from elmo_tf.text.counting import KnownText, reported_sentences
    from elmo_tf.text.reading import sentence_lines

    outputs = output or ("elmo",)
    with Client(address, model, timeout) as client, ThreadPoolExecutor() as pool:
        if sentences not in ((), (STDIN,)):
            sentences = list(reported_sentences(sentences, KnownText()))
            answer = client.predict(sentences, outputs, signature)
            print_json(_jsonable(answer))
            return

        def ask(line: str) -> dict[str, Any]:
            answer = client.predict([line], outputs, signature)
            return {name: array[0] for name, array in answer.items()}

        lines = (line.rstrip("\r\n") for line in sentence_lines(sys.stdin.buffer))
        lines = reported_sentences(lines, KnownText())
        # Typed lines are answered one by one; piped lines are sent together, which is faster.
        size = 1 if sys.stdin.isatty() else 64
        while group := list(itertools.islice(lines, size)):
            for answer in pool.map(ask, group):
                print_json(_jsonable(answer))
                sys.stdout.flush()


def _jsonable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: _decoded(array.tolist()) for name, array in answer.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
