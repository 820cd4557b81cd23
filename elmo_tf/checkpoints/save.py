"""BiLM → options.json + weights.hdf5, as the original and the PyTorch implementation read them."""

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

# What numbers of `weights.hdf5` may be.
DTYPES = ("float32", "float16")

# What `save_bilm` may write.
BILM_FILES = (OPTIONS_FILE, WEIGHTS_FILE, EMBEDDINGS_FILE, VOCABULARY_FILE)


def save_bilm(bilm: BiLM, directory: str | os.PathLike, dtype: str = "float32") -> None:
    """Writes `options.json` and `weights.hdf5`.

    A biLM without a character CNN also gets `token_embeddings.hdf5` and, if it has a vocabulary,
    `vocab.txt`. Each file appears when it is complete; files of these names are replaced. The
    state that `warm_start` leaves is one more dataset of the weights, `initial_state` (direction,
    layer, projection_dim + dim), which other implementations pass over.

    Args:
        bilm: a `BiLM`.
        directory: made if it is not there.
        dtype: "float32", or "float16" for files of half the size, which `load_bilm` reads as
            float32, and not all other implementations read.

    Raises:
        OSError: the files cannot be written.
        ValueError: `dtype` is none of these, or a weight is beyond its range.
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
    """Writes `softmax.hdf5`, the weights that predict words, beside a biLM.

    Both `W` and `b` are in it, though `W` may be the embedding table too. `dtype`: see `save_bilm`,
    which is to be told the same.
    """
    path = Path(directory) / SOFTMAX_FILE
    write_weights(path, softmax_rules(), softmax_variables(softmax), dtype)


def save_language_model(
    model: LanguageModel, directory: str | os.PathLike, dtype: str = "float32"
) -> None:
    """Writes all that `load_language_model` reads: a biLM, its softmax and its vocabulary.

    See `save_bilm` and `save_softmax`; `vocab.txt` is always among the files.
    """
    save_bilm(model.bilm, directory, dtype)
    save_softmax(model.softmax, directory, dtype)
    model.vocabulary.save(Path(directory) / VOCABULARY_FILE)


def dump_token_embeddings(
    bilm: BiLM, vocabulary: Vocabulary, path: str | os.PathLike, batch_size: int = 1024
) -> None:
    """Writes the vector of every token of a vocabulary, one row each, as dataset `embedding`.

    `load_bilm(…, token_embeddings=path, vocabulary=…)` then needs no character CNN.

    Args:
        bilm: a `BiLM` with a character CNN.
        vocabulary: the tokens. `<S>` and `</S>` are written as sentence boundaries.
        path: the file; it appears when it is complete.
        batch_size: int. Tokens encoded at a time.
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
    """Writes JSON for people to read; the file appears when it is complete."""
    with atomic_file(path) as part:
        part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
