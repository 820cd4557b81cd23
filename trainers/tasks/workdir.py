"""The work directory of a task: whether it may be used, the best model, and where a run goes on."""

import contextlib
import fcntl
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.files import atomic_file
from elmo_tf.settings import changed_settings, read_record
from elmo_tf.tasks import TaskModel  # and all that a saved model may hold
from elmo_tf.trainers.tasks.config import RECORD_FILE, TaskConfig
from elmo_tf.trainers.workdir import refuse_used_workdir

MODEL_FILE = "model.keras"
LOG_FILE = "log.jsonl"
STATE_FILE = "state.npz"
_RESULTS = (MODEL_FILE, RECORD_FILE, LOG_FILE, STATE_FILE)
# What a process leaves that is killed while it writes one of them.
_PART = re.compile(rf"\.({'|'.join(map(re.escape, _RESULTS))})\.[0-9a-f]{{8}}\.(part|keras)")


def check_workdir(workdir: Path, config: TaskConfig) -> None:
    """Refuses a directory that a run may neither begin in nor go on in.

    Raises:
        FileExistsError: it is in use, or holds what is no result of a task's and may not go.
        ValueError: the run in it had other settings, or left nothing to go on from.
    """
    if not workdir.exists():
        return
    names = {path.name for path in workdir.iterdir() if not _PART.fullmatch(path.name)}
    results = names & set(_RESULTS)
    if config.overwrite:
        if results and RECORD_FILE not in names:  # such as the log of another kind of training
            raise FileExistsError(
                f"{workdir} is no work directory of a task: there is {', '.join(sorted(results))}, "
                f"and no {RECORD_FILE}. Nothing in it is deleted; choose another."
            )
    elif config.resume and STATE_FILE in names:
        _check_resumes(workdir, config)
    elif config.resume and names == results:
        _check_has_no_epoch(workdir)
    elif names:
        refuse_used_workdir(workdir, names, RECORD_FILE, config.resume)


def _check_has_no_epoch(workdir: Path) -> None:
    """A run that was killed before its first epoch ended has nothing to be lost."""
    path = workdir / RECORD_FILE
    if path.is_file() and read_record(path).get("epochs"):
        raise ValueError(
            f"Cannot go on in {workdir}: {STATE_FILE} is missing, which tells where the run was. "
            "Delete its results and begin anew (overwrite=True, --overwrite), or take another "
            "workdir."
        )


def _check_resumes(workdir: Path, config: TaskConfig) -> None:
    changed = changed_settings(TaskConfig, config.as_json(), read_state(workdir).record["settings"])
    if changed:
        raise ValueError(
            f"Cannot resume with other settings than those in {workdir / RECORD_FILE}: "
            f"{'; '.join(changed)}. Pass the same ones, or choose another workdir."
        )


@contextlib.contextmanager
def claimed_workdir(workdir: Path) -> Iterator[None]:
    """Makes the directory, and keeps other runs out of it for the time of a block.

    Raises:
        FileExistsError: another process trains in it.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(workdir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(
                f"Another process trains in {workdir}: wait for it, or choose another."
            ) from None
        yield
    finally:
        os.close(descriptor)


def prepare_workdir(workdir: Path, keep_results: bool) -> None:
    """Removes what a killed run has left, and results of a run before unless they are kept."""
    for path in list(workdir.iterdir()):
        if _PART.fullmatch(path.name) or (path.name in _RESULTS and not keep_results):
            path.unlink()


def save_model(model: TaskModel, path: Path) -> None:
    """Writes a model as `.keras`; the file is there whole or not at all."""
    with atomic_file(path) as part:
        whole = part.with_suffix(".keras")
        try:
            model.save(whole)
            os.replace(whole, part)
        finally:
            whole.unlink(missing_ok=True)


def load_model(workdir: str | os.PathLike) -> tuple[TaskModel, dict[str, Any]]:
    """The best model of a work directory, and its record.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it cannot be read.
    """
    folder = Path(workdir)
    for name in (MODEL_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} holds no trained task model: there is no {name}. "
                "elmo-tf task train makes one."
            )
    record = read_record(folder / RECORD_FILE)
    try:
        return keras.saving.load_model(folder / MODEL_FILE, compile=False), record
    except (TypeError, ValueError, zipfile.BadZipFile) as error:
        # Keras tells the whole configuration, with all words.
        raise ValueError(
            f"{folder / MODEL_FILE} cannot be read: {str(error)[:200]} … Is it damaged, or of "
            "another version of elmo_tf?"
        ) from None


def save_state(workdir: Path, model: TaskModel, record: dict[str, Any]) -> None:
    """Writes all from which a run goes on behind an epoch."""
    arrays = {str(i): np.asarray(one) for i, one in enumerate(_state(model))}
    with atomic_file(workdir / STATE_FILE) as part, open(part, "wb") as file:
        np.savez(file, record=np.array(json.dumps(record)), **arrays)


class SavedState:
    """What `save_state` wrote. `record` is that of the run then."""

    def __init__(self, path: Path):
        self._path = path
        try:
            with open(path, "rb") as file, np.load(file) as saved:
                self._arrays = {name: saved[name] for name in saved.files}
            self.record: dict[str, Any] = json.loads(str(self._arrays.pop("record")))
        except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged, so that a run cannot go on from it: {error}"
            ) from None

    def give_to(self, model: TaskModel) -> None:
        """Gives a model its weights, and all else that changes in training.

        Raises:
            ValueError: the state is of another model.
        """
        variables = _state(model)
        shapes = [self._arrays[str(index)].shape for index in range(len(self._arrays))]
        if shapes != [tuple(variable.shape) for variable in variables]:
            raise ValueError(
                f"Cannot go on from {self._path}: it is the state of another model. Was it trained "
                "on the same data?"
            )
        for index, variable in enumerate(variables):
            variable.assign(self._arrays[str(index)])


def read_state(workdir: Path) -> SavedState | None:
    """The state from which a run goes on; None if there is none."""
    path = workdir / STATE_FILE
    return SavedState(path) if path.is_file() else None


def _state(model: TaskModel) -> list[keras.Variable]:
    """What changes in training: weights, the states of dropout, and the optimizer's numbers."""
    frozen = set()
    if model.elmo is not None and not model.elmo.trainable_bilm:
        frozen = {_memory(variable) for variable in model.elmo.bilm.weights}
    variables = [one for one in model.variables if _memory(one) not in frozen]
    return [*variables, *model.optimizer.variables]


def _memory(variable: keras.Variable) -> Any:
    """What two views of the same numbers have in common."""
    return variable.value.ref() if isinstance(variable.value, tf.Variable) else id(variable.value)
