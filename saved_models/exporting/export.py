"""Exports a BiLM or an Elmo as a SavedModel for TF Serving, TF Hub and Keras."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from elmo_tf import __version__
from elmo_tf.checkpoints.formats import OPTIONS_FILE, VOCABULARY_FILE
from elmo_tf.config_checks import check_int
from elmo_tf.files import atomic_directory, refuse_pattern, write_json
from elmo_tf.models.elmo import Elmo
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.exporting.verify import verify
from elmo_tf.saved_models.messages import Sentence, checked_sentences, write_warmup
from elmo_tf.saved_models.versions import VERSION_FILES, check_new_version, needed_operations
from elmo_tf.text.vocabulary import Vocabulary

_MEANINGS = {
    "default": "mean of `elmo` over the tokens of a sentence, zeros for an empty sentence",
    "elmo": "mix of all layers",
    "ends": "only `text`: byte offset of the end of each token",
    "sequence_len": "number of tokens of each sentence",
    "starts": "only `text`: byte offset of the start of each token",
    "tokens": 'only `text`: the tokens, padded with ""',
    "word_emb": "context-independent vectors of the tokens",
}


def export(
    bilm_or_elmo: Any,
    directory: str | os.PathLike,
    version: int = 1,
    overwrite: bool = False,
    precision: str | None = None,
    free_characters: bool = False,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    warmup: Sequence[Sentence] = (),
    check: bool = True,
) -> str:
    """Writes `directory/<version>/`, a SavedModel with the signatures of `Exported`.

    The written model is loaded in Python and in a session, as a server does, and compared with the
    live model; the folder appears only if they agree. `assets` contains the configuration
    (options.json) and the vocabulary, `assets.extra` a model card (README.md).

    Args:
        bilm_or_elmo: a `BiLM`, whose layers are mixed uniformly, or an `Elmo` with its learned
            mixes. The initial states of `BiLM.warm_start` are included.
        directory: contains all versions of this model.
        version: int >= 0. Servers load the highest one.
        overwrite: whether to replace an existing version.
        precision, free_characters, tokenizer: see `Exported`.
        vocabulary: the training vocabulary of a character biLM, to be stored with the model. A
            biLM over words includes its own.
        warmup: sentences that TF Serving embeds when it loads the model, before any request. At
            most the first 32 are used.
        check: whether to compare the written model with the live model, which takes most of the
            time.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        TypeError: `bilm_or_elmo` is neither a `BiLM` nor an `Elmo`, or `warmup` is one string.
        ValueError: the model cannot be exported, see `Exported`.
        RuntimeError: the written model differs from the live model.
        OSError: the files cannot be written.
    """
    warmup = list(checked_sentences(warmup))
    if isinstance(bilm_or_elmo, Elmo):
        warn_of_layer_norm(bilm_or_elmo)
    with new_version(directory, version, overwrite) as (part, path):
        exported = Exported(bilm_or_elmo, precision, free_characters, tokenizer)
        vocabulary = exported.bilm.vocabulary or vocabulary
        with tempfile.TemporaryDirectory() as assets:
            write_json(Path(assets, OPTIONS_FILE), exported.bilm.config.to_options())
            if vocabulary is not None:
                vocabulary.save(Path(assets, VOCABULARY_FILE))
            if exported.bilm.lexicon is not None:
                exported.bilm.lexicon.save(assets)
            write_saved_model(exported, part, path, Path(assets))
        if check:
            verify(part, exported)
        _write_elmo_card(part, exported)
        if warmup:
            write_warmup(part, warmup)
    return os.fspath(path)


def warn_of_layer_norm(elmo: Elmo) -> None:
    """Warns if the outputs of an exported model depend on the batch."""
    if elmo.layer_norm:
        logging.warning(
            "This Elmo normalizes each layer over the batch (layer_norm=True): the vectors of the "
            "exported model for a sentence depend on the other sentences of the batch."
        )


@contextlib.contextmanager
def new_version(
    directory: str | os.PathLike, version: Any, overwrite: bool
) -> Iterator[tuple[Path, Path]]:
    """Yields a temporary folder for a version, and its final path, where it is moved on success.

    Raises:
        FileExistsError: the version exists and `overwrite` is false.
        ValueError: `version` is not an integer of at least 0.
    """
    check_int(version, "version", ge=0)
    path = Path(directory) / str(version)
    refuse_pattern(path)
    check_new_version(directory, version, overwrite)
    with atomic_directory(path, overwrite, VERSION_FILES) as part:
        yield part, path


def write_saved_model(exported: Any, folder: Path, path: Path, assets: Path) -> None:
    """Writes a SavedModel with the `signatures` of `exported` and the files of a folder as assets.

    An `OSError` names the final `path`.
    """
    files = sorted(assets.iterdir())
    exported.assets = [tf.saved_model.Asset(os.fspath(file)) for file in files]
    try:
        tf.saved_model.save(exported, os.fspath(folder), signatures=exported.signatures)
    except tf.errors.OpError as error:
        raise OSError(f"Cannot write {path}: {error.message}") from None


def _write_elmo_card(path: Path, exported: Exported) -> None:
    bilm = exported.bilm
    lstm, char_cnn = bilm.config.lstm, bilm.config.char_cnn
    is_warm = np.any(np.asarray(bilm.initial_state))
    if char_cnn is None:
        tokens = f"a vocabulary of {bilm.config.num_tokens:,} words"
    else:
        tokens = f"characters, at most {char_cnn.max_chars} ids per token"
    properties = {
        "input": tokens,
        "directions": "forward and backward" if bilm.config.bidirectional else "forward",
        "LSTM layers per direction": lstm.num_layers,
        "LSTM cells": lstm.dim,
        "vector width per direction": lstm.projection_dim,
        "vector width": bilm.config.output_dim,
        "precision of matrix products": bilm.compute_dtype,
        "initial LSTM state": "from a warm start" if is_warm else "zeros",
    }
    mixes = []
    for index, mix in enumerate(exported.mixes):
        weights, scale = mix.mixing_weights()
        mixes.append((index, ", ".join(f"{weight:.3f}" for weight in weights), f"{scale:.3f}"))
    requirements = "Only TensorFlow's own operations."
    if operations := needed_operations(path):
        requirements = (
            f"The operations {', '.join(f'`{name}`' for name in operations)} of tensorflow-text: "
            "in Python, `import tensorflow_text` before loading the model; a server must be built "
            "with them."
        )
    write_model_card(
        path,
        "ELMo: contextual word vectors",
        exported,
        properties,
        lambda name: _meaning(name, exported.top_only),
        "The vectors of a token depend on its sentence; they come from all layers of a language "
        "model (Peters et al. 2018, Deep contextualized word representations).",
        # The signature of raw text has all outputs of the others.
        signature="text" if "text" in exported.signatures else "default",
        sections=(
            "## Mix",
            _table(("mix", "weights of the layers", "scale"), mixes),
            "## Server requirements",
            requirements,
        ),
    )


def write_model_card(
    folder: Path,
    title: str,
    exported: Any,
    properties: Mapping[str, Any],
    meaning: Callable[[str], str],
    notes: str,
    signature: str = "default",
    sections: Sequence[str] = (),
) -> None:
    """Writes the Markdown model card of a version.

    `exported` has `variables` and `signatures`, of which `signature` has all outputs; `meaning`
    describes an output, `sections` are further paragraphs.
    """
    weights = sum(int(np.prod(variable.shape)) for variable in exported.variables)
    signatures, outputs = [], []
    for name, function in exported.signatures.items():
        if hasattr(function, "get_concrete_function"):
            function = function.get_concrete_function()
        specs = tf.nest.flatten(function.structured_input_signature)
        inputs = [f"`{s.name}`: {_type(s)}" for s in specs if isinstance(s, tf.TensorSpec)]
        signatures.append((f"`{name}`", ", ".join(inputs)))
        if name == signature:
            for output, spec in sorted(function.structured_outputs.items()):
                outputs.append((f"`{output}`", _type(spec), meaning(output)))
    paragraphs = [
        f"# {title}",
        f"Written by elmo_tf {__version__} with TensorFlow {tf.__version__}.",
        _table(("property", "value"), [*properties.items(), ("weights", f"{weights:,}")]),
        "## Signatures",
        _table(("signature", "inputs"), signatures),
        notes,
        "All signatures return these outputs:",
        _table(("output", "dtype and shape", "meaning"), outputs),
        *sections,
    ]
    card = "\n\n".join(filter(None, paragraphs)) + "\n"
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "README.md").write_text(card, encoding="utf-8")


def _meaning(name: str, top_only: bool) -> str:
    if name.startswith("lstm_outputs"):
        return f"LSTM layer {name.removeprefix('lstm_outputs')}, both directions concatenated"
    index = name.rpartition("_")[2]
    if index.isdecimal():
        return f"the same for mix {index}"
    return "the top layer, scaled" if name == "elmo" and top_only else _MEANINGS[name]


def _type(spec: Any) -> str:
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"{spec.dtype.name} ({shape})"


def _table(head: tuple, rows: Sequence[tuple]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
