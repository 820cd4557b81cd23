"""The subcommand `train`: text and vocabulary ─► checkpoint."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import print_json
from elmo_tf.settings import add_settings, config_from_options
from elmo_tf.trainers.config import PretrainConfig


def add_command(add: Callable) -> None:
    """Adds `elmo-tf train`."""
    parser = add(
        "train",
        _train,
        "pretrain a biLM on text",
        "elmo-tf train --corpus text.txt --vocab vocab.txt --workdir run --preset tiny --steps 200 "
        "--batch-size 8",
    )
    add_settings(parser, PretrainConfig)


def _train(arguments: Any) -> None:
    from elmo_tf.trainers.pretraining import pretrain

    config = config_from_options(arguments.refuse_call, PretrainConfig, vars(arguments))
    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": arguments.workdir, "step": record["step"], "perplexity": last})
