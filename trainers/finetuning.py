"""A checkpoint ─► the first weights of a run, whatever vocabulary that run has."""

import dataclasses
import os
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.hdf5 import softmax_variables, variables_by_path
from elmo_tf.checkpoints.load import has_softmax, load_bilm, load_language_model
from elmo_tf.checkpoints.named_models import MODEL_NAMES
from elmo_tf.config import BiLMConfig
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.vocabulary import Vocabulary

# Variables with a row for each token of the vocabulary, by their path below the biLM or softmax.
_TABLES = frozenset({"W", "b", "token_embedding/embedding"})

# What `warm_start` has left belongs to the weights as they were.
_STATE = "initial_state"


class FirstWeights:
    """The weights of a checkpoint, to begin a run with.

    Args:
        path: see `load_bilm`. A directory that training left brings its softmax too.

    Raises:
        FileNotFoundError, ValueError: see `load_bilm`.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = os.fspath(path)
        self._model: LanguageModel | None = None
        if has_softmax(self._path):
            self._model = load_language_model(self._path)
            self._bilm: BiLM = self._model.bilm
        else:  # as published checkpoints
            self._bilm = load_bilm(self._path)

    def bilm_config(self, num_tokens: int) -> BiLMConfig:
        """The shape of its biLM, for a vocabulary of that many tokens."""
        config = self._bilm.config
        if config.num_tokens is None:
            return config
        return dataclasses.replace(config, num_tokens=num_tokens)

    def initialize(self, model: LanguageModel) -> None:
        """Sets a model's weights; tokens that the checkpoint did not know keep those they have."""
        new, old = self._kept_rows(model.vocabulary)
        parts = [(model.bilm, self._bilm, variables_by_path)]
        if self._model is not None:
            parts.append((model.softmax, self._model.softmax, softmax_variables))
        num_tokens = len(model.vocabulary)
        for to, source, variables_of in parts:
            values = variables_of(source)
            for path, weight in variables_of(to).items():
                if path == _STATE:
                    continue
                value = values[path].numpy()
                if path in _TABLES:  # a row for each token
                    value, rows = weight.numpy(), value[old]
                    value[new] = rows
                weight.assign(value)
        if self._model is None:
            logging.warning("%s has no softmax: it begins by chance.", self._path)
            return
        logging.info(
            "%d of %d tokens keep their softmax rows of %s; the others begin by chance.",
            len(new),
            num_tokens,
            self._path,
        )

    def _kept_rows(self, vocabulary: Vocabulary) -> tuple[list[int], list[int]]:
        """Ids of the tokens in both vocabularies: in the new one, and in that of the checkpoint."""
        if self._model is None:
            before = self._bilm.vocabulary.tokens if self._bilm.vocabulary else ()
        else:
            before = self._model.vocabulary.tokens
        ids = {token: index for index, token in enumerate(before)}
        kept = [(new, ids[token]) for new, token in enumerate(vocabulary.tokens) if token in ids]
        return [new for new, _ in kept], [old for _, old in kept]


def check_workdir_hides_no_model(path: str | os.PathLike, workdir: str | os.PathLike) -> None:
    """Refuses a work directory with the name of the model that its run begins with.

    Raises:
        ValueError: the folder would be found in place of the model, when the run goes on.
    """
    if path in MODEL_NAMES and Path(path) == Path(workdir):
        raise ValueError(
            f"`workdir` must not be {path!r} here: a folder of that name hides the model of that "
            "name, with which the run begins. Choose another."
        )


def check_same_shape(shape: BiLMConfig, told: BiLMConfig, path: str | os.PathLike) -> None:
    """Refuses a shape that a run is told beside the checkpoint it begins with.

    Args:
        shape: of the checkpoint.
        told: by a preset or options.
        path: of the checkpoint, for the message.

    Raises:
        ValueError: they differ.
    """
    ours, theirs = dataclasses.asdict(shape), dataclasses.asdict(told)
    parts = [name for name in ours if ours[name] != theirs[name]]
    if parts:
        raise ValueError(
            f"{os.fspath(path)} has another shape than the preset or options say. Leave those out. "
            + "; ".join(f"`{name}` is {ours[name]}, not {theirs[name]}" for name in parts)
        )
