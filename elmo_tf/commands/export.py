"""The subcommand `export`: checkpoint ─► SavedModel."""

import itertools

from elmo_tf.commands.options import Model, ModelDirectory, ModelVersion, Overwrite, Precision


def export(
    checkpoint: Model,
    directory: ModelDirectory,
    /,
    *,
    version: ModelVersion = 1,
    precision: Precision = "float32",
    free_characters: bool = False,
    raw_text: bool = False,
    warmup: str | None = None,
    overwrite: Overwrite = False,
) -> None:
    """Export a checkpoint as a SavedModel for TF Serving.

    Args:
        free_characters: let the char_ids signature accept fewer ids per token than the model's
            maximum.
        raw_text: add the signature `text`, which splits off punctuation; the server must have the
            operations of tensorflow-text.
        warmup: text file; TF Serving embeds its first sentences when it loads the model, so that
            the first requests are fast.
    """
    from elmo_tf.checkpoints.load import open_checkpoint
    from elmo_tf.saved_models.exporting.export import export
    from elmo_tf.saved_models.exporting.signatures import PunctuationSplitter

    first = _sentences(warmup) if warmup else ()
    with open_checkpoint(checkpoint) as opened:
        vocabulary, bilm = opened.vocabulary(), opened.bilm()
    path = export(
        bilm,
        directory,
        version,
        overwrite,
        precision,
        free_characters,
        PunctuationSplitter() if raw_text else None,
        vocabulary,
        first,
    )
    print(path)


def _sentences(path: str) -> list[str]:
    from elmo_tf.saved_models.exporting.export import MOST_SENTENCES
    from elmo_tf.text.reading import read_lines

    lines = (line.strip() for line in read_lines(path))
    sentences = list(itertools.islice(filter(None, lines), MOST_SENTENCES))
    if not sentences:
        raise ValueError(f"{path} holds no sentence to warm up with.")
    return sentences
