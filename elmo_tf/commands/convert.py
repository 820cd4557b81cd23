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
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.checkpoints.locations import SOFTMAX_FILE, in_all_formats, local_checkpoint
    from elmo_tf.checkpoints.save import BILM_FILES, save_bilm
    from elmo_tf.files import atomic_directory
    from elmo_tf.text.corpus import read_sentences, text_files

    source = arguments.source
    source = source[0] if len(source) == 1 else tuple(source)
    known = (*BILM_FILES, *(path.name for path in in_all_formats(Path(SOFTMAX_FILE))))
    with (
        atomic_directory(arguments.target, arguments.overwrite, known) as part,
        local_checkpoint(source) as source,
    ):
        bilm = load_bilm(source)
        if arguments.warm_start:
            bilm.warm_start(read_sentences(text_files(arguments.warm_start)))
        save_bilm(bilm, part, arguments.format, arguments.dtype, arguments.card)
        _convert_softmax(source, bilm, Path(part), arguments)
    logging.info("Wrote %s.", arguments.target)


def _convert_softmax(source: Any, bilm: Any, target: Path, arguments: Any) -> None:
    """Writes the softmax and vocabulary of a checkpoint that has them."""
    from elmo_tf.checkpoints.load import has_softmax, load_softmax, load_vocabulary
    from elmo_tf.checkpoints.locations import VOCABULARY_FILE
    from elmo_tf.checkpoints.save import save_softmax
    from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint, load_tf1_softmax

    original = find_tf1_checkpoint(source)
    vocabulary = load_vocabulary(source)
    if vocabulary is not None:
        vocabulary.save(target / VOCABULARY_FILE)
    if original is not None:
        softmax = load_tf1_softmax(original, bilm)
    elif not has_softmax(source):
        return
    elif vocabulary is None:
        logging.warning("The softmax is left out: there is no %s.", VOCABULARY_FILE)
        return
    else:
        softmax = load_softmax(source, len(vocabulary), bilm)
    save_softmax(softmax, target, arguments.format, arguments.dtype)
