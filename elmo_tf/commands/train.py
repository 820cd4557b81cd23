"""The subcommand `train`: text and vocabulary ─► checkpoint."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import (
    given_config,
    natural,
    not_negative,
    positive,
    positive_float,
    print_json,
    rate,
)
from elmo_tf.config import PRESETS, BiLMConfig
from elmo_tf.trainers.config import OPTIMIZERS, PRECISIONS, SCHEDULES


def add_command(add: Callable) -> None:
    """`elmo-tf train`."""
    parser = add(
        "train",
        lambda arguments: _train(parser, arguments),
        "pretrain a biLM on text",
        "elmo-tf train --corpus text.txt --vocab vocab.txt --workdir run --preset tiny --steps 200 "
        "--batch-size 8",
    )
    parser.argument_default = argparse.SUPPRESS  # they are those of PretrainConfig
    parser.add_argument(
        "--corpus",
        nargs="+",
        metavar="GLOB",
        help="text files, one tokenised sentence a line; .gz is unpacked",
    )
    parser.add_argument("--vocab", metavar="FILE", help="made by elmo-tf vocab")
    parser.add_argument(
        "--workdir", required=True, metavar="DIR", help="gets all results; a checkpoint directory"
    )
    _add_shape(parser)
    _add_course(parser)
    _add_optimizer(parser)
    _add_keeping(parser)


def _add_shape(parser: Any) -> None:
    group = parser.add_argument_group("what is trained")
    shape = group.add_mutually_exclusive_group()
    shape.add_argument("--preset", choices=tuple(PRESETS), help="size of the biLM (small)")
    shape.add_argument("--options", metavar="FILE", help="options.json instead of a preset")
    group.add_argument(
        "--from",
        dest="start_from",
        metavar="CHECKPOINT",
        help="begin with its shape and weights; known tokens keep their softmax rows",
    )
    for option, text in (
        ("--word-input", "read tokens from an embedding table, not by their characters"),
        ("--tie-softmax", "with --word-input: one table for input and softmax"),
        ("--forward-only", "leave the backward direction out"),
    ):
        group.add_argument(option, action="store_true", help=text)


def _add_course(parser: Any) -> None:
    group = parser.add_argument_group("steps")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, metavar="N", help="steps in total")
    length.add_argument(
        "--epochs", type=positive_float, metavar="N", help="passes through the corpus (10)"
    )
    for option, default, text in (
        ("--batch-size", 128, "lanes of text read side by side, by all replicas together"),
        ("--unroll", 20, "tokens of a lane in one step"),
        ("--accumulate", 1, "parts of a batch computed one after the other, to need less memory"),
        ("--num-sampled", 8192, "negatives of the sampled softmax"),
    ):
        group.add_argument(option, type=positive, metavar="N", help=f"{text} ({default})")
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="mixed_bfloat16 is faster where the processor has bfloat16 (float32)",
    )
    group.add_argument("--seed", type=natural, metavar="N", help="of all chance (0)")


def _add_optimizer(parser: Any) -> None:
    group = parser.add_argument_group("optimizer")
    group.add_argument("--optimizer", choices=tuple(OPTIMIZERS), help="(adagrad)")
    usual = ", ".join(f"{name} {rate}" for name, rate in OPTIMIZERS.items())
    group.add_argument("--learning-rate", type=positive_float, metavar="X", help=f"({usual})")
    group.add_argument("--schedule", choices=SCHEDULES, help="of the learning rate (constant)")
    group.add_argument(
        "--warmup-steps", type=natural, metavar="N", help="during which it rises (0)"
    )
    group.add_argument("--weight-decay", type=not_negative, metavar="X", help="of adamw (0)")
    group.add_argument("--dropout", type=rate, metavar="X", help="rate (0.1)")
    group.add_argument(
        "--clip-norm",
        type=positive_float,
        metavar="X",
        help="bound of the gradient's global norm (10)",
    )


def _add_keeping(parser: Any) -> None:
    group = parser.add_argument_group("saving and watching")
    group.add_argument("--valid", nargs="+", metavar="GLOB", help="held-out text, for perplexity")
    group.add_argument(
        "--eval-every", type=positive, metavar="N", help="steps between two looks at --valid"
    )
    group.add_argument("--save-every", type=positive, metavar="STEPS", help="between saves (1000)")
    group.add_argument(
        "--save-minutes",
        type=positive_float,
        metavar="N",
        help="minutes after which a save is due in any case",
    )
    group.add_argument(
        "--tensorboard", action="store_true", help="write losses, norms and rates to its folder"
    )
    group.add_argument(
        "--histograms-every", type=positive, metavar="N", help="steps between two of all weights"
    )
    again = group.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="continue from the last save in --workdir, with its settings where none are given",
    )
    again.add_argument("--overwrite", action="store_true", help="delete the results in --workdir")


def _train(parser: Any, arguments: Any) -> None:
    from elmo_tf.threads import share_cores_for_training
    from elmo_tf.trainers.config import PretrainConfig
    from elmo_tf.trainers.pretraining import pretrain

    settings = {
        name: value for name, value in vars(arguments).items() if name not in ("command", "debug")
    }
    config = given_config(parser, PretrainConfig, settings)
    share_cores_for_training(_shape(config).lstm.dim)
    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": arguments.workdir, "step": record["step"], "perplexity": last})


def _shape(config: Any) -> BiLMConfig:
    """What will be trained, whatever its vocabulary."""
    from elmo_tf.checkpoints.load import OPTIONS_FILE, load_config

    if config.start_from is None:
        return config.bilm_config(1)
    begun = Path(config.workdir, OPTIONS_FILE)
    # A run that has begun needs the checkpoint it began with no more.
    if config.resume and begun.is_file():
        return BiLMConfig.from_options(begun)
    return load_config(config.start_from)
