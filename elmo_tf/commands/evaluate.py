"""The subcommand `evaluate`: the perplexity of a text."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_files, add_language_model, print_json, stdin_in_a_file


def add_command(add: Callable) -> None:
    """Adds `elmo-tf evaluate`."""
    parser = add(
        "evaluate",
        _evaluate,
        "measure perplexity per token, with the full softmax",
        "elmo-tf evaluate run text.txt",
    )
    add_language_model(parser)
    add_files(parser)


def _evaluate(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.perplexity import perplexity
    from elmo_tf.text.corpus import text_files

    with stdin_in_a_file(arguments.files) as patterns:
        files = text_files(patterns)
        print_json(perplexity(load_language_model(arguments.checkpoint), files))
