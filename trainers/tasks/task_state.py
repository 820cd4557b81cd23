"""The state of a task training run after an epoch, from which it resumes exactly."""

import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from elmo_tf.files import atomic_file
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.trainers.optimizers import WeightAverage

STATE_FILE = "state.npz"
_RECORD = "record"


def saved_record(workdir: Path) -> dict[str, Any] | None:
    """The record in the state of a work directory, or None without a state."""
    path = workdir / STATE_FILE
    if not path.is_file():
        return None
    try:
        # NumPy does not close a damaged file.
        with open(path, "rb") as file, np.load(file) as saved:
            return json.loads(str(saved[_RECORD]))
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"Cannot resume: {path} is damaged: {error}") from None


class TaskState:
    """All variables that training changes: weights, their averages, dropout seeds, the optimizer.

    Keras' `BackupAndRestore` saves neither averages nor dropout seeds, and after it `EarlyStopping`
    and `ModelCheckpoint` have forgotten the best epoch.
    """

    def __init__(self, workdir: Path, model: TaskModel, average: WeightAverage):
        self._path = workdir / STATE_FILE
        self._variables: list[keras.Variable] = [
            *model.variables,
            *model.optimizer.variables,
            *average.variables,
        ]
        if model.elmo is not None and not model.elmo.trainable_bilm:
            frozen = {variable.value.ref() for variable in model.elmo.bilm.weights}
            self._variables = [one for one in self._variables if one.value.ref() not in frozen]

    def save(self, record: dict[str, Any]) -> None:
        """Saves the state, with the record of the run."""
        arrays = {str(index): np.asarray(one) for index, one in enumerate(self._variables)}
        with atomic_file(self._path) as part, open(part, "wb") as file:
            np.savez(file, **arrays, **{_RECORD: np.array(json.dumps(record))})

    def restore(self) -> None:
        """Restores the state, or raises `ValueError` if it is that of another model."""
        with np.load(self._path) as saved:
            arrays = [saved[str(index)] for index in range(len(saved.files) - 1)]
        if [array.shape for array in arrays] != [tuple(one.shape) for one in self._variables]:
            raise ValueError(
                f"Cannot resume from {self._path}: it is the state of another model. Was that "
                "model trained on the same data?"
            )
        for variable, array in zip(self._variables, arrays, strict=True):
            variable.assign(array)
