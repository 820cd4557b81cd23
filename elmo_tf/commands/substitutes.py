"""The subcommand `substitutes`: the most probable tokens at a position of a sentence."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_language_model, at_least_0, at_least_1, print_json


def add_command(add: Callable) -> None:
    """Adds `elmo-tf substitutes`."""
    parser = add(
        "substitutes",
        _substitutes,
        "print the most probable tokens at a position of a sentence",
        "elmo-tf substitutes small-en 'The bank of the river' --position 1",
    )
    add_language_model(parser)
    parser.add_argument("sentence", metavar="SENTENCE", help="whitespace-separated tokens")
    parser.add_argument(
        "--position",
        **at_least_0(),
        action="append",
        required=True,
        help="position of a token, from 0; repeatable",
    )
    parser.add_argument("--top", **at_least_1(10), help="number of substitutes per position")


def _substitutes(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.substitution import check_position, substitutes

    tokens, positions = arguments.sentence.split(), arguments.position
    for position in positions:
        check_position("--position", position, len(tokens))
    model = load_language_model(arguments.checkpoint)
    found = substitutes(model, tokens, positions, arguments.top)
    for position, best in zip(positions, found, strict=True):
        rows = [
            {"token": substitute.token, **substitute.log_probs, "total": substitute.total}
            for substitute in best
        ]
        print_json({"position": position, "token": tokens[position], "substitutes": rows})
