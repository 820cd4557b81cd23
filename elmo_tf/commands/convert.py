"""The subcommand `convert`: any supported checkpoint ─► the published format."""

from pathlib import Path
from typing import Annotated, Literal

from absl import logging
from cyclopts import Parameter

from elmo_tf.commands.options import CHECKPOINT, Overwrite


def convert(
    source: Annotated[
        tuple[str, ...],
        Parameter(
            help=f"{CHECKPOINT}; or two files (options and weights), or the prefix of a TensorFlow "
            "1 checkpoint (run/model.ckpt-1250)"
        ),
    ],
    target_dir: str,
    /,
    *,
    warm_start: tuple[str, ...] = (),
    dtype: Literal["float32", "float16"] = "float32",
    format: Literal["hdf5", "safetensors"] = "hdf5",
    overwrite: Overwrite = False,
) -> None:
    """Convert any supported checkpoint to options.json and weights.hdf5 or .safetensors.

    Args:
        target_dir: new checkpoint directory; softmax.hdf5 and vocab.txt are converted too if SOURCE
            has them.
        warm_start: run the biLM over this text (files or patterns) and store the final LSTM state
            as the initial state of every sentence; for checkpoints that were trained with carried
            state.
        dtype: number format of the weights; float16 halves the file, but some other implementations
            cannot read it.
        format: format of the weights; the original and AllenNLP read hdf5.
    """
    from elmo_tf.checkpoints.formats import VOCABULARY_FILE
    from elmo_tf.checkpoints.load import open_checkpoint
    from elmo_tf.checkpoints.published import FILES, save_bilm, save_softmax
    from elmo_tf.files import atomic_directory
    from elmo_tf.lazy import require_extra
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.reading import checked_files

    if format == "safetensors":
        require_extra("safetensors", "huggingface", "The format safetensors")
    texts = checked_files(warm_start)
    with (
        atomic_directory(target_dir, overwrite, FILES) as part,
        open_checkpoint(source[0] if len(source) == 1 else source) as checkpoint,
    ):
        bilm = checkpoint.bilm()
        if texts:
            bilm.warm_start(read_sentences(texts))
        save_bilm(bilm, part, format, dtype)
        if checkpoint.has_softmax:
            softmax, vocabulary = checkpoint.softmax(bilm)
            save_softmax(softmax, part, format, dtype)
            if vocabulary is None:
                logging.warning("The softmax needs its vocabulary: add %s.", VOCABULARY_FILE)
        else:
            vocabulary = bilm.vocabulary or checkpoint.vocabulary()
        if vocabulary is not None:
            vocabulary.save(Path(part, VOCABULARY_FILE))
    logging.info("Wrote %s.", target_dir)
