"""The subcommands `vocab`, `train` and `evaluate`: text ─► checkpoint ─► perplexity."""

import contextlib
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import (
    add_files,
    add_overwrite,
    natural,
    positive,
    positive_float,
    print_json,
    rate,
)
from elmo_tf.config import PRESETS

# Width of an LSTM's state up to which a model counts as small.
_SMALL_DIM = 256


def add_vocab(add: Callable) -> None:
    """`elmo-tf vocab`."""
    parser = add(
        "vocab",
        _vocab,
        "count tokens and write the commonest, one a line",
        "python3 -m pydoc FORMATTING > text.txt && elmo-tf vocab text.txt --output vocab.txt "
        "--min-count 2",
    )
    add_files(parser)
    parser.add_argument("--output", required=True, metavar="FILE", help="the vocabulary")
    parser.add_argument(
        "--max-size",
        type=positive,
        metavar="N",
        help="tokens kept at most, <S> </S> <UNK> included",
    )
    parser.add_argument(
        "--min-count", type=positive, default=1, metavar="N", help="rarer tokens are left out (1)"
    )
    add_overwrite(parser)


def _vocab(arguments: Any) -> None:
    from elmo_tf.files import refuse_existing
    from elmo_tf.progress import progress_over
    from elmo_tf.text.corpus import read_sentences, text_files
    from elmo_tf.text.vocabulary import Vocabulary

    refuse_existing(arguments.output, arguments.overwrite)
    sentences = read_sentences(text_files(arguments.files))
    lines = (" ".join(tokens) for tokens in sentences)
    vocabulary = Vocabulary.build(
        progress_over(lines, None, "counting", "sentences"),
        min_count=arguments.min_count,
        max_size=arguments.max_size,
    )
    vocabulary.save(arguments.output)
    logging.info("%s holds %d tokens.", arguments.output, len(vocabulary))


def add_train(add: Callable) -> None:
    """`elmo-tf train`."""
    parser = add(
        "train",
        _train,
        "pretrain a biLM on text",
        "elmo-tf train --corpus text.txt --vocab vocab.txt --workdir run --preset tiny --steps 200 "
        "--batch-size 8",
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        required=True,
        metavar="GLOB",
        help="text files, one tokenised sentence a line; .gz is unpacked",
    )
    parser.add_argument("--vocab", required=True, metavar="FILE", help="made by elmo-tf vocab")
    parser.add_argument(
        "--workdir", required=True, metavar="DIR", help="gets all results; a checkpoint directory"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--preset", choices=tuple(PRESETS), help="size of the biLM (small)")
    shape.add_argument("--options", metavar="FILE", help="options.json instead of a preset")
    parser.add_argument(
        "--valid", nargs="+", default=(), metavar="GLOB", help="held-out text, for perplexity"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, metavar="N", help="steps in total")
    length.add_argument(
        "--epochs", type=positive_float, metavar="N", help="passes through the corpus (10)"
    )
    for option, default, text in (
        ("--batch-size", 128, "lanes of text read side by side"),
        ("--unroll", 20, "tokens of a lane in one step"),
        ("--num-sampled", 8192, "negatives of the sampled softmax"),
        ("--save-every", 1000, "steps between two saves"),
    ):
        parser.add_argument(
            option, type=positive, default=default, metavar="N", help=f"{text} ({default})"
        )
    parser.add_argument(
        "--eval-every", type=positive, metavar="N", help="steps between two looks at --valid"
    )
    parser.add_argument("--precision", choices=("float32",), default="float32", help="(float32)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of all chance (0)")
    parser.add_argument(
        "--learning-rate", type=positive_float, default=0.2, metavar="X", help="of Adagrad (0.2)"
    )
    parser.add_argument("--dropout", type=rate, default=0.1, metavar="X", help="rate (0.1)")
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume", action="store_true", help="go on from the last save in --workdir"
    )
    again.add_argument("--overwrite", action="store_true", help="delete the results in --workdir")


def _train(arguments: Any) -> None:
    import tensorflow as tf

    from elmo_tf.trainers.config import PretrainConfig
    from elmo_tf.trainers.pretraining import pretrain

    settings = {
        name: value for name, value in vars(arguments).items() if name not in ("command", "debug")
    }
    config = PretrainConfig(**settings)
    if config.bilm_config().lstm.dim <= _SMALL_DIM:
        # Operations this short take longer when they are split over threads.
        with contextlib.suppress(RuntimeError):  # TensorFlow has begun to work already
            tf.config.threading.set_intra_op_parallelism_threads(1)
    record = pretrain(config)
    last = record["perplexity"][-1:]
    print_json({"workdir": arguments.workdir, "step": record["step"], "perplexity": last})


def add_evaluate(add: Callable) -> None:
    """`elmo-tf evaluate`."""
    parser = add(
        "evaluate",
        _evaluate,
        "measure perplexity per token on text, by the full softmax",
        "elmo-tf evaluate run text.txt",
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="directory that elmo-tf train made"
    )
    add_files(parser)


def _evaluate(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation.perplexity import perplexity
    from elmo_tf.text.corpus import text_files

    files = text_files(arguments.files)
    print_json(perplexity(load_language_model(arguments.checkpoint), files))
