"""Saving of checkpoints, in the format of the original and the PyTorch implementation."""

import json
import os
from pathlib import Path

import h5py

from elmo_tf.checkpoints.hdf5 import (
    check_range,
    softmax_variables,
    variables_by_path,
    write_weights,
)
from elmo_tf.checkpoints.load import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_tf.checkpoints.names import softmax_rules, token_embedding_rules, weight_rules
from elmo_tf.config_checks import check_choice
from elmo_tf.files import atomic_file
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.vocabulary import Vocabulary

# Dtypes of `weights.hdf5`.
DTYPES = ("float32", "float16")

# Files that `save_bilm` may write.
BILM_FILES = (OPTIONS_FILE, WEIGHTS_FILE, EMBEDDINGS_FILE, VOCABULARY_FILE)


def save_bilm(bilm: BiLM, directory: str | os.PathLike, dtype: str = "float32") -> None:
    """Writes `options.json` and `weights.hdf5`.

    For a biLM without a character CNN, also `token_embeddings.hdf5` and, if it has a vocabulary,
    `vocab.txt`. Existing files are replaced atomically. The state of `warm_start` is the dataset
    `initial_state` (direction, layer, projection_dim + dim), which other implementations ignore.

    Args:
        bilm: a `BiLM`.
        directory: created if missing.
        dtype: "float32", or "float16" for files of half the size. `load_bilm` reads both; other
            implementations may not read float16.

    Raises:
        OSError: the files cannot be written.
        ValueError: unknown `dtype`, or a weight is out of its range.
    """
    check_choice(dtype, "dtype", DTYPES)
    directory = Path(directory)
    variables = variables_by_path(bilm)
    check_range(variables, dtype)  # before any file is replaced
    write_weights(directory / WEIGHTS_FILE, weight_rules(bilm.config), variables, dtype)
    if bilm.config.char_cnn is None:
        write_weights(directory / EMBEDDINGS_FILE, token_embedding_rules(), variables, dtype)
        if bilm.vocabulary is not None:
            bilm.vocabulary.save(directory / VOCABULARY_FILE)
    write_json(directory / OPTIONS_FILE, bilm.config.to_options())


def save_softmax(
    softmax: SampledSoftmax, directory: str | os.PathLike, dtype: str = "float32"
) -> None:
    """Writes `softmax.hdf5`: `W`, even if it is also the embedding table, and `b`.

    `directory` and `dtype`: see `save_bilm`; use the same values.
    """
    path = Path(directory) / SOFTMAX_FILE
    write_weights(path, softmax_rules(), softmax_variables(softmax), dtype)


def save_language_model(
    model: LanguageModel, directory: str | os.PathLike, dtype: str = "float32"
) -> None:
    """Writes the biLM, softmax and vocabulary of a language model, for `load_language_model`."""
    save_bilm(model.bilm, directory, dtype)
    save_softmax(model.softmax, directory, dtype)
    model.vocabulary.save(Path(directory) / VOCABULARY_FILE)


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


def write_json(path: str | os.PathLike, content: dict) -> None:
    """Writes indented JSON, atomically."""
    with atomic_file(path) as part:
        part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
