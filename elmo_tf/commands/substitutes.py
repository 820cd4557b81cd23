"""The subcommand `substitutes`: the most probable tokens at positions of sentences."""

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from elmo_tf.commands.options import STDIN, add_language_model, at_least_0, at_least_1, print_json

_MARKED = re.compile(r"\*\*(.+)\*\*")


def add_command(add: Callable) -> None:
    """Adds `elmo-tf substitutes`."""
    parser = add(
        "substitutes",
        _substitutes,
        "print the most probable tokens at positions of sentences, as JSON lines",
        "elmo-tf substitutes small-en 'The **bank** of the river' 'A **bank** account'",
    )
    add_language_model(parser)
    parser.add_argument(
        "sentences",
        nargs="+",
        metavar="SENTENCE",
        help="whitespace-separated tokens, some of them marked as **token**; - is stdin, one "
        "sentence per line",
    )
    parser.add_argument(
        "--position",
        **at_least_0(),
        action="append",
        help="position of a token in every sentence, from 0; repeatable (default: the marked "
        "tokens)",
    )
    parser.add_argument("--top", **at_least_1(10), help="number of substitutes per position")


def _substitutes(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.substitution import sentence_substitutes
    from elmo_tf.progress import progress_over

    given = [sentence for sentence in arguments.sentences if sentence != STDIN]
    for sentence in given:
        if arguments.position is None and not _unmarked(sentence)[1]:
            arguments.refuse_call(
                f"mark a token of {sentence!r} as **token**, or name its position (--position)"
            )
    list(_queries(given, arguments.position))  # checks them before the model is loaded
    model = load_language_model(arguments.checkpoint)
    queries, sentences, places = itertools.tee(_queries(arguments.sentences, arguments.position), 3)
    found = sentence_substitutes(
        model, (tokens for tokens, _ in sentences), (each for _, each in places), arguments.top
    )
    if STDIN in arguments.sentences and not sys.stdout.isatty():
        found = progress_over(found, None, "substituting", "sentences")
    for number, (of_sentence, (tokens, positions)) in enumerate(zip(found, queries, strict=True)):
        for position, best in zip(positions, of_sentence, strict=True):
            rows = [
                {"token": substitute.token, **substitute.log_probs, "total": substitute.total}
                for substitute in best
            ]
            where = {"sentence": number, "position": position, "token": tokens[position]}
            print_json({**where, "substitutes": rows})


def _queries(
    sentences: Sequence[str], positions: Sequence[int] | None
) -> Iterator[tuple[list[str], Sequence[int]]]:
    """Yields the tokens of each sentence and the positions to fill; empty for an empty line."""
    from elmo_tf.text.corpus import reported_lines

    for sentence in sentences:
        if sentence != STDIN:
            yield _query(sentence, positions, f"{sentence!r}: " if len(sentences) > 1 else "")
            continue
        for number, line in enumerate(reported_lines([sys.stdin.buffer]), start=1):
            is_empty = not line.strip()
            yield ([], []) if is_empty else _query(line, positions, f"<stdin>, line {number}: ")


def _query(
    sentence: str, positions: Sequence[int] | None, place: str
) -> tuple[list[str], Sequence[int]]:
    from elmo_tf.evaluation.substitution import check_position

    if positions is None:
        tokens, positions = _unmarked(sentence)
        if not positions:
            raise ValueError(
                f"{place}no token is marked as **token**. Mark one, or add --position."
            )
        return tokens, positions
    tokens = sentence.split()
    for position in positions:
        check_position(f"{place}--position", position, len(tokens))
    return tokens, positions


def _unmarked(sentence: str) -> tuple[list[str], list[int]]:
    """The tokens without their marks, and the positions of the marked ones."""
    tokens = sentence.split()
    marked = {
        place: found[1] for place, token in enumerate(tokens) if (found := _MARKED.fullmatch(token))
    }
    return [marked.get(place, token) for place, token in enumerate(tokens)], list(marked)
