"""The subcommand `export`: checkpoint ─► SavedModel, or a file for another runtime."""

import itertools
from typing import Literal

from elmo_tf.commands.options import (
    Model,
    ModelDirectory,
    ModelVersion,
    Overwrite,
    Precision,
    WrongCallError,
)


def export(
    checkpoint: Model,
    directory: ModelDirectory,
    /,
    *,
    version: ModelVersion = 1,
    precision: Precision = "float32",
    raw_text: bool = False,
    warmup: str | None = None,
    overwrite: Overwrite = False,
    format: Literal["onnx", "litert", "openvino"] | None = None,
) -> None:
    """Export a checkpoint as a SavedModel for TF Serving, or for another runtime.

    Args:
        raw_text: add the signature `text`, which splits off punctuation; the server must have the
            operations of tensorflow-text.
        warmup: text file; TF Serving embeds its first sentences when it loads the model, so that
            the first requests are fast.
        format: write model.onnx, model.tflite or model.xml, which reads char ids, for ONNX Runtime,
            LiteRT or OpenVINO, instead of a SavedModel; needs the extra of that name.
    """
    from elmo_tf.checkpoints.load import open_checkpoint
    from elmo_tf.saved_models.exporting.export import MOST_SENTENCES, export
    from elmo_tf.saved_models.exporting.signatures import PunctuationSplitter
    from elmo_tf.text.reading import read_lines

    if format and (precision != "float32" or raw_text or warmup):
        options = "--precision, --raw-text and --warmup"
        raise WrongCallError(f"{options} are for SavedModels, not for --format {format}.")
    lines = (line.strip() for line in read_lines(warmup)) if warmup else ()
    sentences = list(itertools.islice(filter(None, lines), MOST_SENTENCES))
    if warmup and not sentences:
        raise ValueError(f"{warmup} holds no sentence to warm up with.")
    with open_checkpoint(checkpoint) as opened:
        vocabulary, bilm = opened.vocabulary(), opened.bilm()
    path = export(
        bilm,
        directory,
        version,
        overwrite,
        precision,
        PunctuationSplitter() if raw_text else None,
        vocabulary,
        sentences,
        format=format,
    )
    print(path)
