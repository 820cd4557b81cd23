"""The work directory of a task: checks, the best model, and the state to resume from."""

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from elmo_tf.files import atomic_file
from elmo_tf.models.elmo import Elmo
from elmo_tf.settings import check_same_settings, read_record
from elmo_tf.tasks import TaskModel
from elmo_tf.tasks.config import RECORD_FILE, TaskConfig, current_mix
from elmo_tf.trainers.optimizers import WeightAverage
from elmo_tf.trainers.workdir import refuse_other_results, refuse_used_workdir

MODEL_FILE = "model.keras"
LOG_FILE = "log.jsonl"
STATE_FILE = "state.npz"
_RESULTS = (MODEL_FILE, RECORD_FILE, LOG_FILE, STATE_FILE)
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
        before = {**before, "mix": current_mix(before["mix"])}
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
        if _PART.fullmatch(path.name) or (path.name in _RESULTS and not keep_results):
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


def load_model(workdir: str | os.PathLike) -> tuple[TaskModel, TaskConfig]:
    """Loads the best model of a work directory, and the settings of its training.

    Raises:
        FileNotFoundError: the directory has no model.
        ValueError: the model or the record is damaged.
    """
    folder = Path(workdir)
    for name in (MODEL_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} has no trained task model: there is no {name}. Train one with "
                "elmo-tf task train."
            )
    config = TaskConfig.resumed(folder)
    try:
        return keras.saving.load_model(folder / MODEL_FILE, compile=False), config
    except (TypeError, ValueError, zipfile.BadZipFile) as error:
        # Keras' message ends in the complete configuration, with all words.
        raise ValueError(
            f"Cannot read {folder / MODEL_FILE}: {str(error)[:200]} … Is it damaged, or from "
            "another version of elmo_tf?"
        ) from None


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
