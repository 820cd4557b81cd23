"""TaskModel ─► a SavedModel for TF Serving, checked before it appears."""

import os
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from elmo_tf import __version__
from elmo_tf.files import atomic_directory, refuse_pattern
from elmo_tf.saved_models.exporting.export import (
    check_version,
    warn_of_layer_norm,
    write_saved_model,
)
from elmo_tf.saved_models.exporting.model_cards import signature_rows, table, type_name
from elmo_tf.saved_models.exporting.task_signatures import PAIR_SEPARATOR, ExportedTask
from elmo_tf.saved_models.exporting.verify import (
    SENTENCES,
    TOLERANCES,
    check_weights,
    compare_signatures,
)
from elmo_tf.saved_models.folders import VERSION_FILES, check_new_version
from elmo_tf.tasks import TaskModel

LABELS_FILE = "labels.txt"
_MEANINGS = {
    "label": "the most probable label",
    "probabilities": "of each label, in the order of assets/labels.txt",
    "sequence_len": "tokens of each sentence",
    "tags": 'the label of each token, "" behind a sentence',
}


def export_task(
    model: TaskModel,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    check: bool = True,
) -> str:
    """Writes `directory/<version>/`, a SavedModel with the signatures of `ExportedTask`.

    The whole model is in it, with the biLM: strings in, labels and probabilities out. It is loaded
    again, both as Python does and as a server does, and compared with the live one; the folder
    appears when it has passed. `assets/labels.txt` holds the labels, `assets.extra` a model card
    (README.md).

    Args:
        model: a `TaskModel`.
        directory: of all versions of this model.
        version: int >= 0. A server takes the highest one.
        overwrite: whether this version may be replaced.
        check: whether the written model is compared with the live one.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        TypeError: `model` is no task model.
        ValueError: `version` is no version.
        RuntimeError: the written model differs from the live one.
        OSError: the files cannot be written.
    """
    check_version(version)
    path = Path(directory) / str(version)
    refuse_pattern(path)
    check_new_version(directory, version, overwrite)
    exported = ExportedTask(model)
    if model.elmo is not None:
        warn_of_layer_norm(model.elmo)
    with (
        atomic_directory(path, overwrite, VERSION_FILES) as part,
        tempfile.TemporaryDirectory() as assets,
    ):
        labels = Path(assets, LABELS_FILE)
        labels.write_text("".join(f"{label}\n" for label in model.labels), encoding="utf-8")
        exported.assets = [tf.saved_model.Asset(os.fspath(labels))]
        write_saved_model(exported, part, path)
        if check:
            compare_signatures(part, exported.signatures, _inputs(model), TOLERANCES["float32"])
            check_weights(part, exported.variables)
        extra = part / "assets.extra"
        extra.mkdir()
        (extra / "README.md").write_text(_card(exported), encoding="utf-8")
    return os.fspath(path)


def _inputs(model: TaskModel) -> dict[str, dict[str, tf.Tensor]]:
    if len(model.texts) == 1:
        tokens = [sentence.split() for sentence in SENTENCES]
        padded = tf.ragged.constant(tokens, dtype=tf.string).to_tensor("")
        lengths = tf.constant([len(sentence) for sentence in tokens])
        strings = tf.constant(SENTENCES)
        return {
            "default": {"strings": strings},
            "serving_default": {"strings": strings},
            "tokens": {"tokens": padded, "sequence_len": lengths},
        }
    pairs = list(zip(SENTENCES, SENTENCES[1:] + SENTENCES[:1], strict=True))
    strings = tf.constant([PAIR_SEPARATOR.join(pair) for pair in pairs])
    apart = zip(model.texts, zip(*pairs, strict=True), strict=True)
    return {
        "default": {"strings": strings},
        "serving_default": {"strings": strings},
        "pair": {name: tf.constant(texts) for name, texts in apart},
    }


def _card(exported: ExportedTask) -> str:
    model = exported.model
    outputs = exported.signatures["default"].get_concrete_function().structured_outputs
    elmo = "none" if model.elmo is None else f"at the {model.token_vectors.placement}"
    if model.elmo is not None and model.token_vectors.placement == "both":
        elmo = "at the input and the output"
    shape: list[tuple[str, Any]] = [
        ("model", type(model).__name__),
        ("labels", ", ".join(model.labels)),
        ("ELMo", elmo),
        ("weights", f"{sum(int(one.shape.num_elements()) for one in exported.variables):,}"),
    ]
    paragraphs = [
        f"# {type(model).__name__}: {'labels of tokens' if 'tags' in outputs else 'a label'}",
        f"Written by elmo_tf {__version__} with TensorFlow {tf.__version__}.",
        table(("what", "value"), shape),
        "## Signatures",
        table(("signature", "inputs"), signature_rows(exported.signatures)),
        *_of_pairs(model),
        "All give these outputs:",
        table(
            ("output", "dtype and shape", "meaning"),
            [(f"`{name}`", type_name(one), _MEANINGS[name]) for name, one in outputs.items()],
        ),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _of_pairs(model: TaskModel) -> list[str]:
    if len(model.texts) == 1:
        return []
    return [f"`strings` are each a {' and a '.join(model.texts)}, with a tab between them."]
