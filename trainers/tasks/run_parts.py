"""The parts of a run: its work directory, the saved model and state, and the inputs of the model.

The inputs are embeddings and a biLM.
"""

import collections
import json
import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from elmo_tf.files import atomic_file
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.settings import check_same_settings, read_record
from elmo_tf.tasks.config import (
    MODEL_FILE,
    PREDICATES_FOLDER,
    RECORD_FILE,
    TaskConfig,
)
from elmo_tf.tasks.embeddings import CharacterEmbedding, WordEmbedding, word_counts
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.tasks.word_vectors import read_word_vectors
from elmo_tf.text.sentence_files import is_utf_8
from elmo_tf.trainers.optimizers import WeightAverage
from elmo_tf.trainers.workdir import (
    claimed_workdir,
    refuse_other_results,
    refuse_used_workdir,
)

LOG_FILE = "log.jsonl"
STATE_FILE = "state.npz"
# Rarer words share one vector, so that this vector has training examples.
_MIN_COUNT = 2
_RESULTS = (MODEL_FILE, RECORD_FILE, LOG_FILE, STATE_FILE, PREDICATES_FOLDER)
# Temporary files that a killed process leaves.
_PART = re.compile(rf"\.({'|'.join(map(re.escape, _RESULTS))})\.[0-9a-f]{{8}}\.(part|keras)")


def check_workdir(workdir: Path, config: TaskConfig) -> None:
    """Checks that a run can start or resume in the directory.

    Raises:
        FileExistsError: the directory is in use, or holds results of another kind of training.
        ValueError: the run in the directory has other settings, or no state to resume from.
    """
    if not workdir.exists():
        return
    names = {path.name for path in workdir.iterdir() if not _PART.fullmatch(path.name)}
    results = names & set(_RESULTS)
    if config.overwrite:
        refuse_other_results(workdir, results, RECORD_FILE)
    elif config.resume and STATE_FILE in names:
        before = read_state(workdir).record["settings"]
        check_same_settings(TaskConfig, config.as_json(), before, workdir / RECORD_FILE)
    elif config.resume and names == results:  # it may start from the beginning without an epoch
        path = workdir / RECORD_FILE
        if path.is_file() and read_record(path).get("epochs"):
            raise ValueError(
                f"Cannot resume in {workdir}: {STATE_FILE} is missing. Delete the results and "
                "start from the beginning (overwrite=True, --overwrite), or choose another "
                "--workdir."
            )
    elif names:
        refuse_used_workdir(workdir, names, RECORD_FILE, config.resume)


def prepare_workdir(workdir: Path, keep_results: bool) -> None:
    """Removes temporary files of killed runs and, unless they are kept, all results."""
    for path in list(workdir.iterdir()):
        if path.name == PREDICATES_FOLDER and path.is_dir():
            with claimed_workdir(path):
                prepare_workdir(path, keep_results)
        elif _PART.fullmatch(path.name) or (path.name in _RESULTS and not keep_results):
            path.unlink()


def save_model(model: TaskModel, path: Path) -> None:
    """Writes a model as `.keras`, atomically."""
    with atomic_file(path) as part:
        saved = part.with_suffix(".keras")  # the suffix that Keras requires
        try:
            model.save(saved)
            os.replace(saved, part)
        finally:
            saved.unlink(missing_ok=True)


def save_state(
    workdir: Path, model: TaskModel, average: WeightAverage, record: dict[str, Any]
) -> None:
    """Writes the state to resume from after an epoch."""
    arrays = {str(i): np.asarray(variable) for i, variable in enumerate(_state(model, average))}
    with atomic_file(workdir / STATE_FILE) as part, open(part, "wb") as file:
        np.savez(file, record=np.array(json.dumps(record)), **arrays)


class SavedState:
    """The state that `save_state` wrote; `record` is the record of the run at that time."""

    def __init__(self, path: Path):
        self._path = path
        try:
            with open(path, "rb") as file, np.load(file) as saved:
                self._arrays = {name: saved[name] for name in saved.files}
            self.record: dict[str, Any] = json.loads(str(self._arrays.pop("record")))
        except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
            raise ValueError(f"Cannot resume: {path} is damaged: {error}") from None

    def restore(self, model: TaskModel, average: WeightAverage) -> None:
        """Restores the weights of a model, their averages, its optimizer and its random state.

        Raises:
            ValueError: the state is that of another model.
        """
        variables = _state(model, average)
        shapes = [self._arrays[str(index)].shape for index in range(len(self._arrays))]
        if shapes != [tuple(variable.shape) for variable in variables]:
            raise ValueError(
                f"Cannot resume from {self._path}: it is the state of another model. Was that "
                "model trained on the same data?"
            )
        for index, variable in enumerate(variables):
            variable.assign(self._arrays[str(index)])


def read_state(workdir: Path) -> SavedState | None:
    """The state to resume from, or None."""
    path = workdir / STATE_FILE
    return SavedState(path) if path.is_file() else None


def _state(model: TaskModel, average: WeightAverage) -> list[keras.Variable]:
    """The variables that training changes: weights, dropout seeds, optimizer and averages."""
    frozen = set()
    if isinstance(model.elmo, Elmo) and not model.elmo.trainable_bilm:
        frozen = {variable.value.ref() for variable in model.elmo.bilm.weights}
    variables = [variable for variable in model.variables if variable.value.ref() not in frozen]
    return [*variables, *model.optimizer.variables, *average.variables]


def new_embeddings(
    config: TaskConfig, texts: Sequence[tuple[list[str], ...]]
) -> list[keras.layers.Layer]:
    """The embedding layers of a task model.

    Args:
        config: the settings of the run.
        texts: the texts of each training example.
    """
    layers: list[keras.layers.Layer] = []
    counts = word_counts((tokens for example in texts for tokens in example), config.lowercase)
    common = [word for word, count in counts.most_common() if count >= _MIN_COUNT]
    if config.word_vectors is not None:
        layers.append(_pretrained_words(config, counts, common))
    elif config.word_dim and common:
        layers.append(
            WordEmbedding(common, config.word_dim, lowercase=config.lowercase, name="words")
        )
    if config.characters:
        layers.append(CharacterEmbedding(name="characters"))
    return layers


def new_elmo(config: TaskConfig, bilm: BiLM | None) -> Elmo | None:
    """The ELMo layer of a task model, with one mix per place of concatenation."""
    return bilm and Elmo(
        bilm,
        num_mixes=2 if config.placement == "both" else 1,
        dropout=config.elmo_dropout,
        layer_norm=config.layer_norm,
        l2=config.mix_l2 if config.mix == "learned" else 0.0,
        trainable_bilm=config.fine_tune,
        top_only=config.mix == "top",
        average=config.mix == "average",
        name="elmo",
    )


def _pretrained_words(
    config: TaskConfig, counts: collections.Counter[str], common: Sequence[str]
) -> WordEmbedding:
    """Embeds the words of a vector file and the common words; the trained ones come first."""
    vectors = read_word_vectors(config.word_vectors)
    if config.freeze_words:
        trained = [word for word in common if word not in vectors]
    else:
        seen = [word for word in vectors.tokens if word in counts]
        trained = list(dict.fromkeys([*seen, *common]))
    return WordEmbedding.from_vectors(
        vectors,
        list(dict.fromkeys([*trained, *vectors.tokens])),
        lowercase=config.lowercase,
        num_trained=sum(map(is_utf_8, trained)),
        name="words",
    )
