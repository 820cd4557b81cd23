"""The subcommand `convert`: any supported checkpoint ─► the published format."""

import os
import shutil
from collections.abc import Callable
from typing import Any

from absl import logging

from elmo_tf.commands.options import add_overwrite


def add_command(add: Callable) -> None:
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
        help="a directory, a zip, a URL of one, options and weights as two files, the name of a "
        "model, or the prefix of a checkpoint of TensorFlow 1 (run/model.ckpt-1250)",
    )
    parser.add_argument("target", metavar="TARGET_DIR", help="the new checkpoint directory")
    parser.add_argument(
        "--warm-start",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="text to read first: the state it leaves is where every sentence begins, which suits "
        "checkpoints trained with carried state",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="of the numbers in the files; float16 halves the file, and other implementations "
        "may not read it (float32)",
    )
    add_overwrite(parser)


def _convert(arguments: Any) -> None:
    from elmo_tf.checkpoints.load import SOFTMAX_FILE, load_bilm
    from elmo_tf.checkpoints.save import BILM_FILES, save_bilm
    from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint
    from elmo_tf.files import atomic_directory
    from elmo_tf.text.corpus import read_sentences, text_files

    source = arguments.source
    source = source[0] if len(source) == 1 else tuple(source)
    known = (*BILM_FILES, SOFTMAX_FILE)
    with atomic_directory(arguments.target, arguments.overwrite, known) as part:
        bilm = load_bilm(source)
        if arguments.warm_start:
            bilm.warm_start(read_sentences(text_files(arguments.warm_start)))
        save_bilm(bilm, part, arguments.dtype)
        original = find_tf1_checkpoint(source)
        if original is not None:
            _convert_softmax(original, bilm, part, arguments.dtype)
    logging.info("%s is written.", arguments.target)


def _convert_softmax(original: Any, bilm: Any, target: os.PathLike, dtype: str) -> None:
    """Writes what a training run of the original predicts words with."""
    from elmo_tf.checkpoints.load import VOCABULARY_FILE
    from elmo_tf.checkpoints.save import save_softmax
    from elmo_tf.checkpoints.tf1 import load_tf1_softmax

    save_softmax(load_tf1_softmax(original, bilm=bilm), target, dtype)
    vocabulary = original.folder / VOCABULARY_FILE
    if vocabulary.is_file():
        shutil.copy(vocabulary, target)
