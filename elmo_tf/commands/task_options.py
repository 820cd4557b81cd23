"""What the subcommands that train task models are told."""

import argparse
import dataclasses
from typing import Any

from elmo_tf.commands.options import (
    CHECKPOINT,
    natural,
    not_negative,
    positive,
    positive_float,
    rate,
)
from elmo_tf.placements import PLACEMENTS
from elmo_tf.trainers.tasks.config import MIXES, MODELS, PRECISIONS


def add_task_settings(parser: Any, required: bool) -> None:
    """Adds the options that become a `TaskConfig`, of which only those given are set.

    Args:
        parser: of a subcommand.
        required: whether argparse refuses a call without the task and its files.
    """
    parser.argument_default = argparse.SUPPRESS  # they are those of TaskConfig
    parser.add_argument(
        "--task",
        required=required,
        choices=tuple(MODELS),
        help="named entities or parts of speech (CoNLL columns), sentiment (bracketed trees), "
        "entailment (JSON lines), classification of texts (.tsv, .csv)",
    )
    for option, text in (
        ("--train", "to train on"),
        ("--dev", "by which the best epoch is chosen"),
    ):
        parser.add_argument(option, required=required, nargs="+", metavar="FILE", help=text)
    parser.add_argument(
        "--workdir", required=True, metavar="DIR", help="gets the model, its scores and a log"
    )
    _add_elmo(parser)
    _add_model(parser)
    _add_files(parser)
    _add_course(parser)
    parser.argument_default = None


def _add_elmo(parser: Any) -> None:
    group = parser.add_argument_group("ELMo")
    group.add_argument("--elmo", metavar="CHECKPOINT", help=f"{CHECKPOINT} (none: no ELMo)")
    group.add_argument(
        "--placement",
        choices=tuple(PLACEMENTS),
        help="beside the words, beside the output of the task's LSTM, or both (input)",
    )
    group.add_argument("--mix", choices=MIXES, help="of layers (learnt)")
    group.add_argument(
        "--mix-l2",
        type=not_negative,
        metavar="X",
        help="penalty on the weights of the mix: 1 keeps them alike (0.001)",
    )
    group.add_argument("--elmo-dropout", type=rate, metavar="X", help="on its vectors (0.5)")
    group.add_argument(
        "--layer-norm", action="store_true", help="normalise layers over the batch before the mix"
    )
    group.add_argument(
        "--fine-tune", action="store_true", help="train the biLM too, which is slower"
    )
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="of the biLM where it is not trained (float32)",
    )
    group.add_argument("--cache", metavar="DIR", help="for the layers (~/.cache/elmo_tf/layers)")
    group.add_argument(
        "--cache-gb",
        type=not_negative,
        metavar="GB",
        help="that it may hold; 0 keeps nothing (20)",
    )


def _add_model(parser: Any) -> None:
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--model",
        choices=tuple(dict.fromkeys(model for models in MODELS.values() for model in models)),
        help="crf of ner and pos; bcn or bilstm of sst and classify (bcn); esim of snli",
    )
    group.add_argument(
        "--word-vectors", metavar="FILE", help="of GloVe or word2vec, as text, to begin with"
    )
    group.add_argument(
        "--word-dim",
        type=natural,
        metavar="N",
        help="of word vectors that are learnt; 0 for none (50)",
    )
    group.add_argument("--lowercase", action="store_true", help="look words up in lower case")
    group.add_argument("--freeze-words", action="store_true", help="train none of --word-vectors")
    group.add_argument(
        "--no-characters",
        dest="characters",
        action="store_false",
        help="leave out the task's own character CNN",
    )
    group.add_argument(
        "--units",
        type=positive,
        metavar="N",
        help="of its LSTMs; the second of ner and pos has half (the published number)",
    )
    group.add_argument("--dropout", type=rate, metavar="X", help="rate (0.5)")


def _add_files(parser: Any) -> None:
    group = parser.add_argument_group("the files")
    group.add_argument(
        "--input-format", choices=("conll", "conllu"), help="instead of what their names tell"
    )
    for option, text in (
        ("--token-column", "of CoNLL columns, from 1 (1, or 2 of .conllu)"),
        ("--tag-column", "of the tags, from 1 (the last, or 4 of .conllu)"),
    ):
        group.add_argument(option, type=positive, metavar="N", help=text)
    for option, text in (
        ("--text-column", "of classify: its name in the header, or its number from 1 (text)"),
        ("--label-column", "the same of the labels (label); with two numbers there is no header"),
    ):
        group.add_argument(option, type=_column, metavar="NAME", help=text)
    group.add_argument(
        "--scheme",
        choices=("BIO", "IOB1", "BIOUL"),
        help="of the tags of ner; IOB1 reads broken BIO too (BIO)",
    )
    group.add_argument(
        "--phrases",
        type=positive,
        metavar="TOKENS",
        help="of sst: train on phrases of so many tokens too",
    )
    group.add_argument(
        "--binary", action="store_true", help="of sst: negative or positive, without the neutral"
    )


def _add_course(parser: Any) -> None:
    group = parser.add_argument_group("training")
    group.add_argument("--learning-rate", type=positive_float, metavar="X", help="of Adam (0.001)")
    group.add_argument(
        "--clip-norm",
        type=positive_float,
        metavar="X",
        help="bound of the gradient's global norm (5)",
    )
    for option, default, text in (
        ("--batch-size", 32, "examples of a step"),
        ("--epochs", 50, "passes at most"),
        ("--patience", 5, "epochs without a better score, after which it ends"),
    ):
        group.add_argument(option, type=positive, metavar="N", help=f"{text} ({default})")
    group.add_argument("--seed", type=natural, metavar="N", help="of all chance (0)")


def _column(text: str) -> str | int:
    return positive(text) if text.isdecimal() else text


def task_settings(arguments: Any) -> dict[str, Any]:
    """The settings of a `TaskConfig` that are given."""
    from elmo_tf.trainers.tasks.config import TaskConfig

    names = {field.name for field in dataclasses.fields(TaskConfig)} - {"format"}
    settings = {name: value for name, value in vars(arguments).items() if name in names}
    if "input_format" in arguments:
        settings["format"] = arguments.input_format
    return settings
