"""Exports a BiLM or an Elmo as a SavedModel, or for ONNX Runtime, LiteRT or OpenVINO."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from elmo_tf.checkpoints.formats import OPTIONS_FILE, VOCABULARY_FILE
from elmo_tf.files import atomic_directory, refuse_pattern, write_json
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.portability import require_tensorflow
from elmo_tf.saved_models.exporting.runtimes import write_for_runtime
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.exporting.verify import verify
from elmo_tf.saved_models.messages import predict_request
from elmo_tf.text.inputs import Sentence, token_lists
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE
from elmo_tf.text.vocabulary import Vocabulary

# Files and folders of a version.
VERSION_FILES = ("saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra")
VERSION_FILES += ("model.*", OPTIONS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE)
_VERSIONS = 2**63  # TF Serving's limit
# Relative to the folder of a version; TF Serving's path.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
_BATCH_SIZES = (1, 8, 32)  # sentences per request: TensorFlow prepares kernels for each size
MOST_SENTENCES = _BATCH_SIZES[-1]  # further sentences are not used


def export(
    bilm_or_elmo: Any,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    precision: str | None = None,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    warmup: Sequence[Sentence] = (),
    check: bool = True,
    format: str | None = None,
) -> str:
    """Writes `directory/<version>/`, a SavedModel; docs/guides/exporting.md lists its signatures.

    The written model is loaded in Python and in a session, as a server does, and compared with the
    live model; the folder appears only if they agree. `assets` contains the configuration
    (options.json) and the vocabulary.

    With a `format`, the folder contains instead `model.onnx`, `model.tflite`, or `model.xml` and
    `model.bin`, with the inputs and outputs of `PortableModel`; options.json and the vocabulary are
    beside it. The file is run in its runtime and compared with the live model.

    Args:
        bilm_or_elmo: a `BiLM`, whose layers are mixed uniformly, or an `Elmo` with its learned
            mixes. The initial states of `BiLM.warm_start` are included.
        directory: contains all versions of this model.
        version: int, 0 to 2⁶³ - 1. Servers load the highest one.
        overwrite: whether to replace an existing version.
        precision: "float32" or "bfloat16", of matrix products; None for that of the biLM. Outputs
            and weights are float32.
        tokenizer: has `split_with_offsets`, like the splitters of tensorflow-text; adds the
            signature `text` for raw text. It also returns `tokens`, string (batch, token) padded
            with `""`, and their byte offsets `starts` and `ends`, int64 (batch, token).
        vocabulary: the training vocabulary of a character biLM, to be stored with the model. A
            biLM over words includes its own.
        warmup: sentences that TF Serving embeds when it loads the model, before any request. At
            most the first 32 are used.
        check: whether to compare the written model with the live model, which takes most of the
            time.
        format: "onnx", "litert" or "openvino" for a file of ONNX Runtime, LiteRT or OpenVINO, which
            needs the extra of that name, without `precision`, `tokenizer`, `warmup` and `check`.
            None for a SavedModel.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        TypeError: `bilm_or_elmo` is neither a `BiLM` nor an `Elmo`, `tokenizer` is not a splitter,
            or `warmup` is one string.
        ValueError: the biLM is stateful or keeps the boundaries, or an argument has a wrong value
            or is not for the format.
        ImportError: the packages of the format are not installed.
        RuntimeError: the written model differs from the live model.
        OSError, tf.errors.OpError: the files cannot be written.

    Example:
        >>> elmo_tf.saved_models.export(elmo_tf.load_bilm("small-en"), "exported")
        'exported/1'
    """
    require_tensorflow("Export")
    warmup = list(token_lists(warmup, "warmup"))
    warn_of_layer_norm(bilm_or_elmo)
    of_saved_models = precision not in (None, "float32"), tokenizer, warmup, not check
    if format is not None and any(of_saved_models):
        message = "`precision`, `tokenizer`, `warmup` and `check` are for SavedModels, "
        raise ValueError(f"{message}not for format={format!r}.")
    path = version_path(directory, version)
    with atomic_directory(path, overwrite, VERSION_FILES) as part:
        if format is not None:
            _write_assets(write_for_runtime(bilm_or_elmo, format, part).bilm, vocabulary, part)
            return os.fspath(path)
        exported = Exported(bilm_or_elmo, precision, tokenizer)
        tf.saved_model.save(exported, os.fspath(part), signatures=exported.signatures)
        _write_assets(exported.bilm, vocabulary, part / "assets")
        if check:
            verify(part, exported)
        if warmup:
            write_warmup(part, warmup)
    return os.fspath(path)


def _write_assets(bilm: BiLM, vocabulary: Vocabulary | None, folder: Path) -> None:
    write_json(folder / OPTIONS_FILE, bilm.config.to_options())
    vocabulary = bilm.vocabulary or vocabulary
    if vocabulary is not None:
        vocabulary.save(folder / VOCABULARY_FILE)
    if bilm.lexicon is not None:
        bilm.lexicon.save(folder)


def warn_of_layer_norm(source: Any) -> None:
    """Warns if `source` is an `Elmo` whose outputs depend on the batch."""
    if isinstance(source, Elmo) and source.layer_norm:
        logging.warning(
            "This Elmo normalizes each layer over the batch (layer_norm=True): the vectors of the "
            "exported model for a sentence depend on the other sentences of the batch."
        )


def version_path(directory: str | os.PathLike, version: Any) -> Path:
    """Returns the folder of a version."""
    if type(version) is not int or not 0 <= version < _VERSIONS:
        raise ValueError(f"`version` must be an integer from 0 to 2⁶³ - 1. Received: {version!r}")
    path = Path(directory, str(version))
    refuse_pattern(path)
    return path


def versions_in(directory: Path) -> dict[int, Path]:
    """Returns the folders of all versions by number; empty if there are none."""
    folders = [path.parent for path in directory.glob("*/saved_model.pb")]
    numbers = {int(each.name): each for each in folders if re.fullmatch("[0-9]+", each.name)}
    return {number: folder for number, folder in numbers.items() if number < _VERSIONS}


def write_warmup(version: str | os.PathLike, sentences: Sequence[list[str]]) -> None:
    """Writes requests of several sizes, with strings and with tokens, to the folder of a version.

    The `sentences` are repeated if there are too few.
    """
    path = Path(version) / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for size in _BATCH_SIZES:
            tokens = list(itertools.islice(itertools.cycle(sentences), size))
            for batch in ([" ".join(sentence) for sentence in tokens], tokens):
                request = predict_request(model_pb2.ModelSpec(), batch)
                log = prediction_log_pb2.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString())


def read_warmup(version: str | os.PathLike) -> list[predict_pb2.PredictRequest]:
    """Returns the warm-up requests of an exported model; empty if there are none."""
    path = Path(version) / WARMUP_FILE
    if not path.is_file():
        return []
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    logs = (prediction_log_pb2.PredictionLog.FromString(record) for record in records)
    return [log.predict_log.request for log in logs if log.HasField("predict_log")]
