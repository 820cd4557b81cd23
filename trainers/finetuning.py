"""Initial weights of a run from a checkpoint, whose vocabulary may differ from that of the run."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.checkpoints.locations import open_checkpoint
from elmo_tf.checkpoints.named_models import MODEL_NAMES
from elmo_tf.checkpoints.weight_files import softmax_variables, variables_by_path
from elmo_tf.config import BiLMConfig
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.lexicon import Lexicon
from elmo_tf.text.vocabulary import Vocabulary

# Variables with one row per token of the vocabulary, by their path below the biLM or softmax.
_TABLES = frozenset({"W", "b", "token_embedding/embedding"})

# Not copied: `warm_start` computed it with the weights of the checkpoint, which training changes.
_STATE = "initial_state"


class InitialWeights:
    """The weights of a checkpoint from which a run starts.

    Args:
        path: see `load_bilm`. The softmax is read too if the checkpoint has one.

    Raises:
        FileNotFoundError, ValueError: see `load_bilm`.
    """

    def __init__(self, path: str):
        self._path = path
        self._model: LanguageModel | None = None
        with open_checkpoint(path) as checkpoint:
            if checkpoint.has_softmax:
                self._model = checkpoint.language_model()
                self._bilm: BiLM = self._model.bilm
            else:  # such as a published checkpoint
                self._bilm = checkpoint.bilm()

    @property
    def lexicon(self) -> Lexicon | None:
        """The lexicon of the checkpoint."""
        return self._bilm.lexicon

    def assign_to(self, model: LanguageModel) -> None:
        """Sets the weights of a model. Rows of tokens that the checkpoint lacks are unchanged."""
        new, old = self._shared_ids(model.vocabulary)
        parts = [(model.bilm, self._bilm, variables_by_path)]
        if self._model is not None:
            parts.append((model.softmax, self._model.softmax, softmax_variables))
        for target, source, variables_of in parts:
            values = variables_of(source)
            for path, weight in variables_of(target).items():
                if path == _STATE:
                    continue
                value = values[path].numpy()
                if path in _TABLES:
                    rows, value = value[old], weight.numpy()
                    value[new] = rows
                weight.assign(value)
        if self._model is None:
            logging.warning(
                "%s has no softmax weights: the softmax is randomly initialized.", self._path
            )
            return
        logging.info(
            "%d of %d tokens keep their softmax rows of %s; the others are randomly initialized.",
            len(new),
            len(model.vocabulary),
            self._path,
        )

    def _shared_ids(self, vocabulary: Vocabulary) -> tuple[list[int], list[int]]:
        """Ids of the tokens in both vocabularies: in the given one, and in the checkpoint's."""
        source = self._bilm.vocabulary if self._model is None else self._model.vocabulary
        ids = {token: index for index, token in enumerate(source.tokens if source else ())}
        shared = [(new, ids[token]) for new, token in enumerate(vocabulary.tokens) if token in ids]
        return [new for new, _ in shared], [old for _, old in shared]


def check_workdir_hides_no_model(path: str, workdir: str) -> None:
    """Raises `ValueError` if the work directory has the name of the model to start from.

    When the run is resumed, the directory would be found in place of the model.
    """
    if path in MODEL_NAMES and Path(path).absolute() == Path(workdir).absolute():
        raise ValueError(
            f"`workdir` must not be {path!r} here: a directory of that name hides the model "
            f"{path} to start from. Choose another."
        )


def check_same_shape(shape: BiLMConfig, requested: BiLMConfig, path: str) -> None:
    """Raises `ValueError` if a preset or options differ from the checkpoint to start from.

    Args:
        shape: the shape of the checkpoint.
        requested: the shape of the preset or options.
        path: the checkpoint, for the message.
    """
    ours, theirs = (_flat(dataclasses.asdict(one)) for one in (shape, requested))
    names = sorted({*ours, *theirs})
    values = [(name, ours.get(name), theirs.get(name)) for name in names]
    changed = [f"`{name}` is {our}, not {their}" for name, our, their in values if our != their]
    if changed:
        raise ValueError(
            f"{path} has another shape than the preset or options: "
            f"{'; '.join(changed)}. Leave the preset and options out."
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of all groups, by names such as `lstm.dim`."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
