"""BiLM or Elmo ─► a SavedModel for TF Serving, TF Hub and Keras, checked before it appears."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import logging

from elmo_tf.checkpoints.load import OPTIONS_FILE, VOCABULARY_FILE
from elmo_tf.checkpoints.save import write_json
from elmo_tf.files import atomic_directory, refuse_pattern
from elmo_tf.models.elmo import Elmo
from elmo_tf.saved_models.exporting.model_cards import model_card
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.exporting.verify import verify
from elmo_tf.saved_models.exporting.warmup import write_warmup
from elmo_tf.saved_models.folders import VERSION_FILES, check_new_version
from elmo_tf.text.vocabulary import Vocabulary


def export(
    bilm_or_elmo: Any,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    precision: str | None = None,
    free_characters: bool = False,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    warmup: Sequence[str] = (),
    check: bool = True,
) -> str:
    """Writes `directory/<version>/`, a SavedModel with the signatures of `Exported`.

    The model is loaded again, both as Python does and as a server does, and compared with the live
    one; the folder appears when it has passed. `assets` holds the shape (options.json) and the
    vocabulary, `assets.extra` a model card (README.md).

    Args:
        bilm_or_elmo: a `BiLM`, whose layers are mixed evenly, or an `Elmo` with its learnt mixes.
            What `BiLM.warm_start` left goes with it.
        directory: of all versions of this model.
        version: int >= 0. A server takes the highest one.
        overwrite: whether this version may be replaced.
        precision, free_characters, tokenizer: see `Exported`.
        vocabulary: the one that a biLM of characters was trained with, to lie beside it. A biLM of
            whole tokens brings its own.
        warmup: sentences that TF Serving embeds when it loads the model, before anybody asks.
        check: whether the written model is compared with the live one, which takes most of the
            time.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        TypeError: `bilm_or_elmo` is neither.
        ValueError: it cannot be exported, see `Exported`.
        RuntimeError: the written model differs from the live one.
        OSError: the files cannot be written.
    """
    check_version(version)
    if isinstance(bilm_or_elmo, Elmo):
        warn_of_layer_norm(bilm_or_elmo)
    path = Path(directory) / str(version)
    refuse_pattern(path)
    check_new_version(directory, version, overwrite)
    with (
        atomic_directory(path, overwrite, VERSION_FILES) as part,
        tempfile.TemporaryDirectory() as assets,
    ):
        exported = Exported(bilm_or_elmo, precision, free_characters, tokenizer)
        exported.assets = _assets(Path(assets), exported, vocabulary)
        write_saved_model(exported, part, path)
        if check:
            verify(part, exported)
        extra = part / "assets.extra"
        extra.mkdir()
        (extra / "README.md").write_text(model_card(part, exported), encoding="utf-8")
        if warmup:
            write_warmup(part, list(warmup))
    return os.fspath(path)


def warn_of_layer_norm(elmo: Elmo) -> None:
    """Warns of what an exported model answers, if its layers are normalised."""
    if elmo.layer_norm:
        logging.warning(
            "This Elmo normalises each layer over the whole batch (layer_norm=True): what the "
            "exported model answers for a sentence depends on the sentences beside it."
        )


def check_version(version: Any) -> None:
    """Refuses what cannot be the number of a version.

    Raises:
        ValueError: it cannot.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ValueError(f"`version` must be an integer of at least 0. Received: {version!r}")


def write_saved_model(exported: Any, folder: Path, path: Path) -> None:
    """Writes a SavedModel of an object and its `signatures`.

    Args:
        exported: the object.
        folder: to be written to.
        path: where it will stand, for errors.

    Raises:
        OSError: it cannot be written.
    """
    try:
        tf.saved_model.save(exported, os.fspath(folder), signatures=exported.signatures)
    except tf.errors.OpError as error:
        raise OSError(f"Cannot write {path}: {error.message}") from None


def _assets(folder: Path, exported: Exported, vocabulary: Vocabulary | None) -> list[Any]:
    """Files that TensorFlow copies into the folder `assets` of an exported model."""
    write_json(folder / OPTIONS_FILE, exported.bilm.config.to_options())
    vocabulary = exported.bilm.vocabulary or vocabulary
    if vocabulary is not None:
        vocabulary.save(folder / VOCABULARY_FILE)
    return [tf.saved_model.Asset(os.fspath(path)) for path in sorted(folder.iterdir())]
