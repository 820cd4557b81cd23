"""The subcommand `query`: sentences ─► server ─► vectors."""

import itertools
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import PositiveFloat

from elmo_tf.commands.options import STDIN, TokenizerName, print_json


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
    output: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = ("elmo",),
    signature: str | None = None,
    tokenizer: TokenizerName = None,
    timeout: PositiveFloat = 60.0,
) -> None:
    """Request the vectors of sentences from a model server.

    With --tokenize, the server tokenizes the raw text (elmo-tf serve, if its model names the
    tokenizer); with --tokenize CODE, this command does.

    Args:
        address: host:port or grpcs://host:port of the server's gRPC.
        model: name of the model.
        output: elmo, default (sentence vectors), word_emb, …; may be repeated.
        signature: signature; by default serving_default, or with --tokenize text.
        timeout: seconds; for sentences from stdin, per sentence.
    """
    import grpc

    from elmo_tf.saved_models.client import Client, ServerError
    from elmo_tf.text.counting import KnownText, reported_sentences
    from elmo_tf.text.reading import sentence_lines
    from elmo_tf.text.tokenizers import token_sentences, tokenizer_of

    by_server = tokenizer == "model"
    signature = signature or ("text" if by_server else None)
    split = None if by_server else tokenizer_of(tokenizer, None)

    def prepared(texts: Iterable[str]) -> Iterable[Any]:
        if split is not None:
            return (list(itertools.chain(*token_sentences([text], split))) for text in texts)
        return texts if tokenizer else reported_sentences(texts, KnownText())

    def predict(given: Sequence[Any]) -> dict[str, Any]:
        try:
            return client.predict(given, output, signature)
        except ServerError as error:
            if not by_server or error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                raise
            raise ValueError(
                f"{address} does not tokenize raw text for {model} (it has no signature "
                f"{signature}). Pass the code of the tokenizer, such as --tokenize en."
            ) from None

    with Client(address, model, timeout) as client, ThreadPoolExecutor() as pool:
        if sentences not in ((), (STDIN,)):
            print_json(predict(list(prepared("-" if s == STDIN else s for s in sentences))))
            return

        def ask(line: Any) -> dict[str, Any]:
            return {name: values[0] for name, values in predict([line]).items()}

        lines = (line.rstrip("\r\n") for line in sentence_lines(sys.stdin.buffer))
        lines = iter(prepared(lines))
        # Typed lines are answered one by one; piped lines are sent together, which is faster.
        size = 1 if sys.stdin.isatty() else 64
        while group := list(itertools.islice(lines, size)):
            for answer in pool.map(ask, group):
                print_json(answer)
                sys.stdout.flush()
