"""The subcommand `substitutes`: the tokens that fit a position of a sentence."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_language_model, natural, positive, print_json


def add_command(add: Callable) -> None:
    """`elmo-tf substitutes`."""
    parser = add(
        "substitutes",
        _substitutes,
        "print the tokens that fit a place of a sentence best, as JSON",
        "elmo-tf substitutes run 'The bank of the river' --position 1",
    )
    add_language_model(parser)
    parser.add_argument("sentence", metavar="SENTENCE", help="split at white space")
    parser.add_argument(
        "--position",
        type=natural,
        action="append",
        required=True,
        metavar="N",
        help="place of a token, from 0; may be repeated, and each prints a line",
    )
    parser.add_argument(
        "--top", type=positive, default=10, metavar="N", help="substitutes for each place (10)"
    )


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
