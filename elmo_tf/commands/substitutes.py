"""The subcommand `substitutes`: the most probable tokens at positions of sentences."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from elmo_tf.commands.options import STDIN, LanguageModel, WrongCallError, print_json

_MARKED = re.compile(r"\*\*(.+)\*\*")


def substitutes(
    checkpoint: LanguageModel,
    sentences: Annotated[
        tuple[str, ...],
        Parameter(
            help="whitespace-separated tokens, some of them marked as `**token**`; - is stdin, one "
            "sentence per line"
        ),
    ],
    /,
    *,
    position: Annotated[tuple[NonNegativeInt, ...], Parameter(consume_multiple=False)] = (),
    top: PositiveInt = 10,
) -> None:
    """Print the most probable tokens at positions of sentences, as JSON lines.

    Args:
        position: position of a token in every sentence, from 0; repeatable; by default the marked
            tokens.
        top: number of substitutes per position.
    """
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.scoring import substitutes

    queries = list(_queries(sentences, position))
    model = load_language_model(checkpoint)
    found = substitutes(model, *zip(*queries, strict=True), top)
    for index, ((tokens, positions), of_sentence) in enumerate(zip(queries, found, strict=True)):
        for place, best in zip(positions, of_sentence, strict=True):
            rows = [
                {"token": substitute.token, **substitute.log_probs, "total": substitute.total}
                for substitute in best
            ]
            where = {"sentence": index, "position": place, "token": tokens[place]}
            print_json({**where, "substitutes": rows})


def _queries(
    sentences: Sequence[str], positions: Sequence[int]
) -> Iterator[tuple[list[str], Sequence[int]]]:
    """Yields the tokens of each sentence and the positions to fill; empty for an empty line."""
    from elmo_tf.text.counting import reported_lines

    for sentence in sentences:
        for line in reported_lines([sys.stdin.buffer]) if sentence == STDIN else [sentence]:
            tokens, places = (line.split(), positions) if positions else _unmarked(line)
            if tokens and not places:
                raise WrongCallError(
                    f"mark a token of {line.strip()!r} as **token**, or name its position "
                    "(--position)"
                )
            yield tokens, places if tokens else ()


def _unmarked(sentence: str) -> tuple[list[str], list[int]]:
    """The tokens without their marks, and the positions of the marked ones."""
    tokens = sentence.split()
    marked = {
        place: match[1] for place, token in enumerate(tokens) if (match := _MARKED.fullmatch(token))
    }
    return [marked.get(place, token) for place, token in enumerate(tokens)], list(marked)
