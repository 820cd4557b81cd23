"""The subcommand `convert`: any supported checkpoint ─► the published format."""

from pathlib import Path
from typing import Any, Literal

from absl import logging

from elmo_tf.commands.options import CHECKPOINT, Overwrite, subcommand
from elmo_tf.settings import Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _ConvertOptions:
    source: Texts = setting(
        is_positional=True,
        metavar="SOURCE",
        help=f"{CHECKPOINT}; or two files (options and weights), or the prefix of a TensorFlow 1 "
        "checkpoint (run/model.ckpt-1250)",
    )
    target: str = setting(
        is_positional=True,
        metavar="TARGET_DIR",
        help="new checkpoint directory; softmax.hdf5 and vocab.txt are converted too if SOURCE has "
        "them",
    )
    warm_start: Texts = setting(
        (),
        "run the biLM over this text and store the final LSTM state as the initial state of every "
        "sentence; for checkpoints that were trained with carried state",
        metavar="GLOB",
    )
    dtype: Literal["float32", "float16"] = setting(
        "float32",
        "number format of the weights; float16 halves the file, but some other implementations "
        "cannot read it",
    )
    format: Literal["hdf5", "safetensors"] = setting(
        "hdf5", "format of the weights; the original and AllenNLP read hdf5"
    )
    card: bool = setting(
        False, "also write README.md with the metadata that the Hugging Face Hub reads"
    )
    overwrite: Overwrite = False


@subcommand(
    "elmo-tf convert run converted",
)
def convert(options: _ConvertOptions) -> None:
    """Convert any supported checkpoint to options.json and weights.hdf5 or .safetensors."""
    from elmo_tf.checkpoints.load import load_bilm
    from elmo_tf.checkpoints.locations import SOFTMAX_FILE, in_all_formats, local_checkpoint
    from elmo_tf.checkpoints.save import BILM_FILES, save_bilm
    from elmo_tf.files import atomic_directory
    from elmo_tf.text.corpus import read_sentences, text_files

    source = options.source
    source = source[0] if len(source) == 1 else tuple(source)
    known = (*BILM_FILES, *(path.name for path in in_all_formats(Path(SOFTMAX_FILE))))
    with (
        atomic_directory(options.target, options.overwrite, known) as part,
        local_checkpoint(source) as source,
    ):
        bilm = load_bilm(source)
        if options.warm_start:
            bilm.warm_start(read_sentences(text_files(options.warm_start)))
        save_bilm(bilm, part, options.format, options.dtype, options.card)
        _convert_softmax(source, bilm, Path(part), options)
    logging.info("Wrote %s.", options.target)


def _convert_softmax(source: Any, bilm: Any, target: Path, options: _ConvertOptions) -> None:
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
    save_softmax(softmax, target, options.format, options.dtype)
