"""The subcommand `train`: text and vocabulary ─► checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import print_json
from elmo_tf.config import BiLMConfig
from elmo_tf.settings import add_settings, config_from_options
from elmo_tf.trainers.config import PretrainConfig


def add_command(add: Callable) -> None:
    """Adds `elmo-tf train`."""
    parser = add(
        "train",
        lambda arguments: _train(parser, arguments),
        "pretrain a biLM on text",
        "elmo-tf train --corpus text.txt --vocab vocab.txt --workdir run --preset tiny --steps 200 "
        "--batch-size 8",
    )
    add_settings(parser, PretrainConfig)


def _train(parser: Any, arguments: Any) -> None:
    from elmo_tf.threads import share_cores_for_training
    from elmo_tf.trainers.pretraining import pretrain

    config = config_from_options(parser, PretrainConfig, vars(arguments))
    share_cores_for_training(_shape(config).lstm.dim)
    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": arguments.workdir, "step": record["step"], "perplexity": last})


def _shape(config: PretrainConfig) -> BiLMConfig:
    """The shape of the biLM to train, with a vocabulary of any size."""
    from elmo_tf.checkpoints.load import OPTIONS_FILE, load_config

    if config.start_from is None:
        return config.bilm_config(1)
    resumed = Path(config.workdir, OPTIONS_FILE)
    # The checkpoint that the run started from may be gone.
    if config.resume and resumed.is_file():
        return BiLMConfig.from_options(resumed)
    return load_config(config.start_from)
