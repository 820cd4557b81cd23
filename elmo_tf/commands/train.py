"""The subcommand `train`: text ─► checkpoint."""

import os

from elmo_tf.commands.options import print_json, subcommand
from elmo_tf.trainers.config import PretrainConfig


@subcommand(
    "elmo-tf train --corpus text.txt --workdir run --preset tiny --steps 200 --batch-size 8"
)
def train(config: PretrainConfig) -> None:
    """Pretrain a biLM on text."""
    from elmo_tf.files import refuse_unwritable
    from elmo_tf.trainers.pretraining import pretrain

    refuse_unwritable(os.path.join(config.workdir, "state"))
    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": config.workdir, "step": record["step"], "perplexity": last})
