"""Exports a task model as a SavedModel for TF Serving."""

import os
import tempfile
from pathlib import Path

import tensorflow as tf

from elmo_tf.saved_models.exporting.export import (
    new_version,
    warn_of_layer_norm,
    write_card,
    write_saved_model,
)
from elmo_tf.saved_models.exporting.model_cards import model_card
from elmo_tf.saved_models.exporting.task_signatures import PAIR_SEPARATOR, ExportedTask
from elmo_tf.saved_models.exporting.verify import (
    SENTENCES,
    TOLERANCES,
    check_weights,
    compare_signatures,
    token_inputs,
)
from elmo_tf.tasks import CoreferenceModel, SRLTagger, TaskModel

LABELS_FILE = "labels.txt"
_MEANINGS = {
    "label": "the most probable label",
    "probabilities": "of each label, in the order of assets/labels.txt",
    "sequence_len": "number of tokens of each sentence",
    "tags": 'the label of each token, padded with ""',
    "answer": "the tokens of the answer, joined by spaces",
    "answer_start": "index of the answer's first token in the passage, from 0",
    "answer_end": "index of the answer's last token",
    "probability": "of the answer, among all spans of the passage that may be one",
    "mention_start": "index of a mention's first token in the document, from 0, padded with -1",
    "mention_end": "index of a mention's last token, padded with -1",
    "entity": "number of the entity of a mention, from 0, padded with -1",
}
_PREDICATE = 1  # index of the predicate in verification; shorter sentences are skipped


def export_task(
    model: TaskModel,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    check: bool = True,
) -> str:
    """Writes `directory/<version>/`, a SavedModel with the signatures of `ExportedTask`.

    The SavedModel includes the biLM: it maps strings to labels and probabilities. It is loaded in
    Python and in a session, as a server does, and compared with the live model; the folder appears
    only if they agree. `assets/labels.txt` contains the labels, `assets.extra` a model card
    (README.md).

    Args:
        model: a `TaskModel`.
        directory: contains all versions of this model.
        version: int >= 0. Servers load the highest one.
        overwrite: whether to replace an existing version.
        check: whether to compare the written model with the live model.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        TypeError: `model` is not a task model.
        ValueError: `version` is not an integer of at least 0.
        RuntimeError: the written model differs from the live model.
        OSError: the files cannot be written.
    """
    with new_version(directory, version, overwrite) as (part, path):
        exported = ExportedTask(model)
        if model.elmo is not None:
            warn_of_layer_norm(model.elmo)
        with tempfile.TemporaryDirectory() as assets:
            if model.labels:
                labels = "".join(f"{label}\n" for label in model.labels)
                Path(assets, LABELS_FILE).write_text(labels, encoding="utf-8")
            write_saved_model(exported, part, path, Path(assets))
        if check:
            compare_signatures(part, exported.signatures, _inputs(model), TOLERANCES["float32"])
            check_weights(part, exported.variables)
        write_card(part, _card(exported))
    return os.fspath(path)


def _inputs(model: TaskModel) -> dict[str, dict[str, tf.Tensor]]:
    if isinstance(model, CoreferenceModel):
        strings, others = tf.constant(["\n".join(SENTENCES), *SENTENCES]), {}
    elif isinstance(model, SRLTagger):
        sentences = [sentence for sentence in SENTENCES if len(sentence.split()) > _PREDICATE]
        strings = tf.constant([f"{_PREDICATE} {sentence}" for sentence in sentences])
        predicates = tf.fill((len(sentences),), _PREDICATE)
        others = {"roles": {"strings": tf.constant(sentences), "predicate": predicates}}
    elif len(model.texts) == 1:
        strings, others = tf.constant(SENTENCES), {"tokens": token_inputs()}
    else:
        pairs = list(zip(SENTENCES, SENTENCES[1:] + SENTENCES[:1], strict=True))
        strings = tf.constant([PAIR_SEPARATOR.join(pair) for pair in pairs])
        columns = zip(model.texts, zip(*pairs, strict=True), strict=True)
        others = {"pair": {name: tf.constant(texts) for name, texts in columns}}
    return {"default": {"strings": strings}, "serving_default": {"strings": strings}, **others}


def _card(exported: ExportedTask) -> str:
    model = exported.model
    outputs = exported.signatures["default"].get_concrete_function().structured_outputs
    titles = {"tags": "labels of tokens", "answer": "an answer", "entity": "coreference"}
    title = next((title for name, title in titles.items() if name in outputs), "a label")
    elmo = "none"
    if model.elmo is not None:
        placement = model.token_vectors.placement
        elmo = f"at the {'input and the output' if placement == 'both' else placement}"
    notes = ""
    if len(model.texts) > 1:
        notes = f"Each of `strings` is a {' and a '.join(model.texts)}, with a tab between them."
    if isinstance(model, SRLTagger):
        notes = (
            "Each string of the default signature is the index of the predicate, from 0, and the "
            "sentence, such as `1 Cats chase mice .`"
        )
    if isinstance(model, CoreferenceModel):
        notes = "Each of `strings` is a document with one sentence per line."
    properties = {
        "model": type(model).__name__,
        "labels": ", ".join(model.labels) or "none",
        "ELMo": elmo,
    }
    return model_card(f"{type(model).__name__}: {title}", exported, properties, _MEANINGS, notes)
