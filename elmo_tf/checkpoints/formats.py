"""The base class of checkpoint formats."""

import abc
import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

import numpy as np
from absl import logging

from elmo_tf.checkpoints.weight_files import (
    FORMATS,
    assign,
    softmax_variables,
    variables_by_path,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.layers.sampled_softmax import SampledSoftmax, TiedSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import Vocabulary, read_vocabulary

Source = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
# A directory, a file, or a pair (options, weights).
LocalPath = Path | tuple[Path, Path]

OPTIONS_FILE = "options.json"
# Weight files; `.safetensors` in place of `.hdf5` in that format.
WEIGHTS_FILE = "weights.hdf5"
EMBEDDINGS_FILE = "token_embeddings.hdf5"
SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"
# The path of the table of a biLM without a character CNN.
TOKEN_TABLE = "token_embedding/embedding"


class Checkpoint(abc.ABC):
    """The files of a checkpoint on this machine. Errors: see `load_bilm`.

    A format is a subclass in `load.CHECKPOINT_FORMATS`. It sets `config`, and implements
    `recognizes`, `read_weights` and, if the format has one, `lexicon`. If it has a softmax, it sets
    `has_softmax` and implements `read_softmax()`. The vocabulary is `vocab.txt` in all formats.

    `path` is what the class recognizes, and `shown` the source in messages.
    """

    # The names of the files, which are downloaded from the Hugging Face Hub.
    patterns: ClassVar[tuple[str, ...]]
    config: BiLMConfig  # the shape of the biLM
    # The file of `load_bilm(token_embeddings=…)`, if the format allows it.
    token_embeddings: str | os.PathLike | None = None
    replaces_characters = False
    has_softmax = False
    # Returns the weights of the softmax, if there is one, by their names in `softmax_variables`.
    # One that shares the table of the biLM has only `b`.
    read_softmax: Callable[[], dict[str, np.ndarray]]

    def __init__(self, path: LocalPath, shown: Source):
        self.path = path
        first = path[0] if isinstance(path, tuple) else path
        self.folder = first if first.is_dir() else first.parent

    @classmethod
    @abc.abstractmethod
    def recognizes(cls, path: LocalPath) -> bool:
        """Whether a path is a checkpoint of this format, or a part of one."""

    @abc.abstractmethod
    def read_weights(self, config: BiLMConfig) -> dict[str, np.ndarray]:
        """Reads the weights of a biLM of this shape, by the paths of its variables.

        Names and shapes are compared before, so that wrong options cannot exhaust the memory.
        """

    def lexicon(self, config: BiLMConfig) -> Lexicon | None:
        """The lexicon of a biLM of this shape, or None if it has none."""
        if config.char_cnn is None or config.char_cnn.lexicon is None:
            return None
        return Lexicon.load(self.folder, has_words=config.char_cnn.lexicon.num_words > 0)

    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary, or None if there is none, or nothing here reads a damaged one."""
        path = self._vocabulary_file()
        try:
            return None if path is None else read_vocabulary(path)[0]
        except ValueError as error:
            if self.has_softmax or self.config.char_cnn is None:
                raise
            logging.warning("The vocabulary is left out: %s", error)
            return None

    def bilm(
        self,
        token_embeddings: str | os.PathLike | None = None,
        vocabulary: str | os.PathLike | None = None,
        **kwargs,
    ) -> BiLM:
        """Loads the biLM. Arguments and errors: see `load_bilm`."""
        config, words = self.config, None
        if token_embeddings is not None and not self.replaces_characters:
            raise ValueError(
                "`token_embeddings` is not supported for checkpoints of TensorFlow 1 and "
                f"ELMoForManyLangs. Convert the checkpoint first: {self.path}"
            )
        self.token_embeddings = token_embeddings
        path = vocabulary or self._vocabulary_file()
        if config.char_cnn is None or token_embeddings is not None:
            config = dataclasses.replace(config, char_cnn=None, num_tokens=config.num_tokens or 1)
        elif vocabulary is not None:
            raise ValueError("`vocabulary` requires `token_embeddings`.")
        values = self.read_weights(config)
        if config.char_cnn is None:
            words, table = _in_order(path, {TOKEN_TABLE: values[TOKEN_TABLE]})
            values |= table
            config = dataclasses.replace(config, num_tokens=len(values[TOKEN_TABLE]))
        bilm = BiLM(config, vocabulary=words, lexicon=self.lexicon(config), **kwargs)
        assign(variables_by_path(bilm), values)
        return bilm

    def softmax(self, bilm: BiLM) -> tuple[SampledSoftmax, Vocabulary | None]:
        """Loads the softmax, which may share the table of `bilm`, and the vocabulary, if any.

        Only with `has_softmax`. Errors: see `load_language_model`.
        """
        vocabulary, values = _in_order(self._vocabulary_file(), self.read_softmax())
        if bilm.config.tie_softmax:
            softmax = TiedSoftmax(bilm.token_encoder)
        else:
            softmax = SampledSoftmax(len(values["b"]))
        softmax.build((None, bilm.config.lstm.projection_dim))
        variables = softmax_variables(softmax)
        assign({name: variables[name] for name in values}, values)
        return softmax, vocabulary

    def language_model(self) -> LanguageModel:
        """Loads the biLM, the softmax and the vocabulary. Errors: see `load_language_model`."""
        if not self.has_softmax:
            is_pair = isinstance(self.path, tuple)
            problem = "A pair has no softmax" if is_pair else f"There is no {SOFTMAX_FILE}"
            wanted = "the directory of a checkpoint written by training"
            if indexes := matches(self.folder, ["*.index"]):  # beside weights that were dumped
                wanted = f"the training checkpoint, {indexes[-1].with_suffix('')}"
            raise FileNotFoundError(
                f"{problem} in {self.folder}: probabilities of words require {wanted}."
            )
        if self._vocabulary_file() is None:
            raise FileNotFoundError(
                f"There is no {VOCABULARY_FILE} in {self.folder}, which a softmax needs."
            )
        bilm = self.bilm()
        return LanguageModel(bilm, *self.softmax(bilm))

    def _vocabulary_file(self) -> Path | None:
        path = self.folder / VOCABULARY_FILE
        return path if path.is_file() else None


def _in_order(
    path: str | os.PathLike | None, tables: dict[str, np.ndarray]
) -> tuple[Vocabulary | None, dict[str, np.ndarray]]:
    """Reads the vocabulary of tables, if there is one, and puts their rows in its order."""
    if path is None:
        return None, tables
    vocabulary, rows = read_vocabulary(path, min(map(len, tables.values())))
    for name, table in tables.items():
        if len(table) != len(rows):
            raise ValueError(
                f"{os.fspath(path)} has {len(rows):,} tokens, but `{name}` of the checkpoint has "
                f"{len(table):,} rows. Is it the vocabulary of another model?"
            )
    if rows != sorted(rows):
        tables = {name: table[rows] for name, table in tables.items()}
    return vocabulary, tables


def in_all_formats(path: Path) -> list[Path]:
    """The paths of a weight file in all formats."""
    return [path.with_suffix(f".{name}") for name in FORMATS]


def newest(files: Iterable[Path]) -> Path | None:
    """Of a file in several formats, the newest: an interrupted save may leave an older one."""
    existing = [file for file in files if file.is_file()]
    return max(existing, key=lambda file: file.stat().st_mtime_ns) if existing else None


def matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The files that match; not hidden ones, such as `._options.json`, which macOS adds."""
    paths = (file for pattern in patterns for file in folder.glob(pattern))
    return sorted(file for file in paths if not file.name.startswith("."))
