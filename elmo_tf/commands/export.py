"""The subcommand `export`: checkpoint ─► SavedModel."""

import itertools

from elmo_tf.commands.options import (
    CHECKPOINT,
    ModelDirectory,
    ModelVersion,
    Overwrite,
    Precision,
    subcommand,
)
from elmo_tf.settings import checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _ExportOptions:
    checkpoint: str = setting(is_positional=True, metavar="CHECKPOINT", help=CHECKPOINT)
    directory: ModelDirectory
    version: ModelVersion = 1
    precision: Precision = "float32"
    free_characters: bool = setting(
        False, "let the char_ids signature accept fewer ids per token than the model's maximum"
    )
    raw_text: bool = setting(
        False,
        "add the signature `text`, which splits off punctuation; the server must have the "
        "operations of tensorflow-text",
    )
    warmup: str | None = setting(
        None,
        "text file; TF Serving embeds its first sentences when it loads the model, so that the "
        "first requests are fast",
        metavar="TEXT",
    )
    overwrite: Overwrite = False


@subcommand("elmo-tf export small-en exported")
def export(options: _ExportOptions) -> None:
    """Export a checkpoint as a SavedModel for TF Serving."""
    from elmo_tf.checkpoints.load import load_bilm, load_vocabulary
    from elmo_tf.files import refuse_pattern
    from elmo_tf.saved_models.exporting.export import export
    from elmo_tf.saved_models.exporting.signatures import PunctuationSplitter
    from elmo_tf.saved_models.versions import check_new_version

    check_new_version(options.directory, options.version, options.overwrite)
    refuse_pattern(options.directory)
    warmup = _sentences(options.warmup) if options.warmup else ()
    vocabulary = load_vocabulary(options.checkpoint)
    path = export(
        load_bilm(options.checkpoint),
        options.directory,
        options.version,
        options.overwrite,
        options.precision,
        options.free_characters,
        PunctuationSplitter() if options.raw_text else None,
        vocabulary,
        warmup,
    )
    print(path)


def _sentences(path: str) -> list[str]:
    from elmo_tf.saved_models.messages import MOST_SENTENCES
    from elmo_tf.text.reading import read_lines

    lines = (line.strip() for line in read_lines(path))
    sentences = list(itertools.islice(filter(None, lines), MOST_SENTENCES))
    if not sentences:
        raise ValueError(f"{path} holds no sentence to warm up with.")
    return sentences
