"""Saving of checkpoints, in the format of the original and the PyTorch implementation."""

import os
from collections.abc import Sequence
from pathlib import Path

import h5py
import keras

from elmo_tf.checkpoints.formats import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    in_all_formats,
)
from elmo_tf.checkpoints.published import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.checkpoints.weight_files import (
    FORMATS,
    WeightRule,
    check_range,
    softmax_variables,
    variables_by_path,
    write_weights,
)
from elmo_tf.files import atomic_file, write_json
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE
from elmo_tf.text.vocabulary import Vocabulary

# Dtypes of weight files.
DTYPES = ("float32", "float16")

# Files that `save_bilm` may write.
BILM_FILES = (
    *(OPTIONS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE),
    *(path.name for name in (WEIGHTS_FILE, EMBEDDINGS_FILE) for path in in_all_formats(Path(name))),
)


def save_bilm(
    bilm: BiLM,
    directory: str | os.PathLike,
    format: str = "hdf5",
    dtype: str = "float32",
) -> None:
    """Writes `options.json` and `weights.hdf5` (or `weights.safetensors`).

    For a biLM without a character CNN, also `token_embeddings.hdf5` and, if it has a vocabulary,
    `vocab.txt`; for a biLM with a lexicon, `char.dic` and `word.dic`. Existing files are replaced
    atomically, and weights in the other format removed.
    The state of `warm_start` is the array `initial_state` (direction, layer, projection_dim + dim),
    which other implementations ignore.

    Args:
        bilm: a `BiLM`.
        directory: created if missing.
        format: "hdf5", which the original and AllenNLP read, or "safetensors", with the same
            names.
        dtype: "float32", or "float16" for files of half the size. `load_bilm` reads both; other
            implementations may not read float16.

    Raises:
        OSError: the files cannot be written.
        ValueError: unknown `format` or `dtype`, or a weight is out of its range.
        ImportError: the package safetensors is not installed.

    Example:
        >>> elmo_tf.save_bilm(elmo_tf.load_bilm("small-en"), "copy", dtype="float16")
        >>> elmo_tf.load_bilm("copy").config.output_dim
        384
    """
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: {dtype!r}")
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    directory = Path(directory)
    variables = variables_by_path(bilm)
    check_range(variables, dtype)  # before any file is replaced
    _write(directory / WEIGHTS_FILE, weight_rules(bilm.config), variables, dtype, format)
    if bilm.config.char_cnn is None:
        _write(directory / EMBEDDINGS_FILE, token_embedding_rules(), variables, dtype, format)
        if bilm.vocabulary is not None:
            bilm.vocabulary.save(directory / VOCABULARY_FILE)
    if bilm.lexicon is not None:
        bilm.lexicon.save(directory)
    write_json(directory / OPTIONS_FILE, bilm.config.to_options())


def save_softmax(
    softmax: SampledSoftmax,
    directory: str | os.PathLike,
    format: str = "hdf5",
    dtype: str = "float32",
) -> None:
    """Writes `softmax.hdf5`: `W`, even if it is also the embedding table, and `b`.

    With "float16", a `W` that is not shared is rounded and compressed, see `write_weights`.
    `directory`, `format` and `dtype`: see `save_bilm`; use the same values.
    """
    path = Path(directory) / SOFTMAX_FILE
    compress = dtype == "float16" and not isinstance(softmax, TiedSoftmax)
    _write(path, softmax_rules(), softmax_variables(softmax), dtype, format, compress)


def save_language_model(
    model: LanguageModel, directory: str | os.PathLike, format: str = "hdf5", dtype: str = "float32"
) -> None:
    """Writes the biLM, softmax and vocabulary of a language model, for `load_language_model`.

    `format` and `dtype`: see `save_bilm`.
    """
    save_bilm(model.bilm, directory, format, dtype)
    save_softmax(model.softmax, directory, format, dtype)
    model.vocabulary.save(Path(directory) / VOCABULARY_FILE)


def _write(
    path: Path,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    dtype: str,
    format: str,
    compress: bool = False,
) -> None:
    """Writes a weight file, and removes the one of the other format."""
    write_weights(path.with_suffix(f".{format}"), rules, variables, dtype, compress)
    for other in {*FORMATS} - {format}:
        path.with_suffix(f".{other}").unlink(missing_ok=True)


def dump_token_embeddings(
    bilm: BiLM, vocabulary: Vocabulary, path: str | os.PathLike, batch_size: int = 1024
) -> None:
    """Writes the token embeddings of a vocabulary, for `load_bilm(…, token_embeddings=path)`.

    Args:
        bilm: a `BiLM` with a character CNN.
        vocabulary: the tokens. `<S>` and `</S>` are written as sentence boundaries.
        path: the HDF5 file; its dataset `embedding` has one row per token.
        batch_size: int. Tokens per batch.
    """
    tokens = vocabulary.tokens
    shape = (len(tokens), bilm.config.lstm.projection_dim)
    with atomic_file(path) as part, h5py.File(part, "w") as file:
        rows = file.create_dataset("embedding", shape, "float32")
        for start in range(0, len(tokens), batch_size):
            batch = tokens[start : start + batch_size]
            rows[start : start + len(batch)] = bilm.token_embeddings(list(batch))
        rows[:2] = bilm.boundary_embeddings()
