"""The subcommand `convert`: any supported checkpoint ─► the published format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.commands.options import CHECKPOINT, add_choice, add_overwrite


def add_command(add: Callable) -> None:
    """Adds `elmo-tf convert`."""
    parser = add(
        "convert",
        _convert,
        "convert any supported checkpoint to options.json and weights.hdf5 or .safetensors",
        "elmo-tf convert run converted",
    )
    parser.add_argument(
        "source",
        nargs="+",
        metavar="SOURCE",
        help=f"{CHECKPOINT}; or two files (options and weights), or the prefix of a TensorFlow 1 "
        "checkpoint (run/model.ckpt-1250)",
    )
    parser.add_argument(
        "target",
        metavar="TARGET_DIR",
        help="new checkpoint directory; softmax.hdf5 and vocab.txt are converted too if SOURCE has "
        "them",
    )
    parser.add_argument(
        "--warm-start",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="run the biLM over this text and store the final LSTM state as the initial state of "
        "every sentence; for checkpoints that were trained with carried state",
    )
    add_choice(
        parser,
        "--dtype",
        ("float32", "float16"),
        "number format of the weights; float16 halves the file, but some other "
        "implementations cannot read it",
    )
    add_choice(
        parser,
        "--format",
        ("hdf5", "safetensors"),
        "format of the weights; the original and AllenNLP read hdf5",
    )
    parser.add_argument(
        "--card",
        action="store_true",
        help="also write README.md with the metadata that the Hugging Face Hub reads",
    )
    add_overwrite(parser)


def _convert(arguments: Any) -> None:
    from elmo_tf.checkpoints.formats import SOFTMAX_FILE, VOCABULARY_FILE, in_all_formats
    from elmo_tf.checkpoints.locations import open_checkpoint
    from elmo_tf.checkpoints.save import BILM_FILES, save_bilm, save_softmax
    from elmo_tf.files import atomic_directory
    from elmo_tf.text.corpus import read_sentences, text_files

    source = arguments.source
    source = source[0] if len(source) == 1 else tuple(source)
    known = (*BILM_FILES, *(path.name for path in in_all_formats(Path(SOFTMAX_FILE))))
    with (
        atomic_directory(arguments.target, arguments.overwrite, known) as part,
        open_checkpoint(source) as checkpoint,
    ):
        bilm = checkpoint.bilm()
        if arguments.warm_start:
            bilm.warm_start(read_sentences(text_files(arguments.warm_start)))
        save_bilm(bilm, part, arguments.format, arguments.dtype, arguments.card)
        vocabulary = checkpoint.vocabulary()
        if vocabulary is not None:
            vocabulary.save(Path(part, VOCABULARY_FILE))
        if checkpoint.has_softmax:
            softmax = checkpoint.softmax(bilm, None if vocabulary is None else len(vocabulary))
            save_softmax(softmax, part, arguments.format, arguments.dtype)
            if vocabulary is None:
                logging.warning("The softmax needs its vocabulary: add %s.", VOCABULARY_FILE)
    logging.info("Wrote %s.", arguments.target)
