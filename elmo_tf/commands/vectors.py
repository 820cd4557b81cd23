"""The subcommands `convert` and `embed`: checkpoint ─► checkpoint, or vectors in a file."""

import os
import shutil
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_overwrite, positive


def add_convert(add: Callable) -> None:
    """`elmo-tf convert`."""
    parser = add(
        "convert",
        _convert,
        "read any supported checkpoint and write options.json and weights.hdf5; of one that was "
        "trained with TensorFlow 1 also softmax.hdf5, and vocab.txt if it stands beside it",
        "elmo-tf convert run converted",
    )
    parser.add_argument(
        "source",
        nargs="+",
        metavar="SOURCE",
        help="a directory, a zip, a URL of one, options and weights as two files, or the prefix of "
        "a checkpoint of TensorFlow 1 (run/model.ckpt-1250)",
    )
    parser.add_argument("target", metavar="TARGET_DIR", help="the new checkpoint directory")
    add_overwrite(parser)


def _convert(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import SOFTMAX_FILE, load_bilm
    from elmo_tf.checkpoints.save import BILM_FILES, save_bilm
    from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint
    from elmo_tf.files import atomic_directory

    source = arguments.source
    source = source[0] if len(source) == 1 else tuple(source)
    known = (*BILM_FILES, SOFTMAX_FILE)
    with atomic_directory(arguments.target, arguments.overwrite, known) as part:
        bilm = load_bilm(source)
        save_bilm(bilm, part)
        original = find_tf1_checkpoint(source)
        if original is not None:
            _convert_softmax(original, bilm, part)
    logging.info("%s is written.", arguments.target)


def _convert_softmax(original: Any, bilm: Any, target: os.PathLike) -> None:
    """Writes what a training run of the original predicts words with."""
    from elmo_tf.checkpoints.load import VOCABULARY_FILE
    from elmo_tf.checkpoints.save import save_softmax
    from elmo_tf.checkpoints.tf1 import load_tf1_softmax

    save_softmax(load_tf1_softmax(original, bilm=bilm), target)
    vocabulary = original.folder / VOCABULARY_FILE
    if vocabulary.is_file():
        shutil.copy(vocabulary, target)


def add_embed(add: Callable) -> None:
    """`elmo-tf embed`."""
    parser = add(
        "embed",
        _embed,
        "write the vectors of a text's lines to HDF5, one dataset a line, named from 0",
        "elmo-tf embed run text.txt vectors.hdf5",
    )
    parser.add_argument("model", metavar="MODEL", help="a checkpoint: directory, zip or URL")
    parser.add_argument("input", metavar="INPUT", help="one tokenised sentence a line; .gz too")
    parser.add_argument("output", metavar="OUTPUT.hdf5", help="appears when it is complete")
    parser.add_argument(
        "--layers", choices=("all", "top", "average", "mix"), default="all", help="(all)"
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="bfloat16 is faster where the processor has it, and less exact (float32)",
    )
    parser.add_argument(
        "--batch-tokens", type=positive, default=4096, metavar="N", help="in a batch (4096)"
    )
    add_overwrite(parser)


def _embed(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.files import refuse_existing

    refuse_existing(arguments.output, arguments.overwrite)
    embedder = Embedder(
        arguments.model, arguments.layers, arguments.precision, arguments.batch_tokens
    )
    embedder.embed_file(arguments.input, arguments.output, arguments.overwrite)
