"""The subcommand `train`: text ─► checkpoint."""

from typing import Annotated

from cyclopts import Parameter

from elmo_tf.commands.options import print_json
from elmo_tf.trainers.config import PretrainConfig


def train(*, config: Annotated[PretrainConfig, Parameter(name="*")]) -> None:
    """Pretrain a biLM on text."""
    from elmo_tf.trainers.pretraining import pretrain

    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": config.workdir, "step": record["step"], "perplexity": last})
