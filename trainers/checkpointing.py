"""Stops a run between two steps, saves its state in `workdir/state`, and restores it exactly.

A save is a directory: `weights` (with the step and the running gradient norm), `optimizer` and,
with a moving average of the weights, `average`, written by the chief; the position in the text and
the LSTM states of each worker; and `COMPLETE`, written last. A directory without `COMPLETE` is
ignored.
"""

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from elmo_tf.files import atomic_file, sync_to_disk
from elmo_tf.text.windows import LMWindows
from elmo_tf.trainers.steps import TrainStep

STATE_FOLDER = "state"
_COMPLETE = "COMPLETE"
# Two, because a crash of the machine may damage the files that were written last.
_SAVES_KEPT = 2
_FILE_TIMEOUT = 60  # seconds
# TensorFlow raises IndexError for some damaged files.
_READ_ERRORS = (AssertionError, IndexError, KeyError, OSError, ValueError, tf.errors.OpError)


class RunState:
    """Saves and restores weights, optimizer, step, LSTM states and the position in the text.

    If a run is killed during a save, it resumes from the save before. All workers share the work
    directory.
    """

    def __init__(self, workdir: Path, train_step: TrainStep, windows: LMWindows):
        self._folder = workdir / STATE_FOLDER
        self.train_step = train_step
        self._cluster = train_step.cluster
        # Keras variables are wrappers; `tf.train.Checkpoint` needs TensorFlow's variables.
        weights = {weight.path: weight.value for weight in train_step.model.weights}
        slots = {variable.path: variable.value for variable in train_step.optimizer.variables}
        # TensorFlow copies everything that it writes into one file at a time.
        self._shared = {
            "weights": tf.train.Checkpoint(
                weights=weights,
                step=train_step.step,
                usual_norm=train_step.running_norm,  # the name in all saves since 0.3
            ),
            "optimizer": tf.train.Checkpoint(optimizer=slots),
        }
        averages = [average.value for average in train_step.average.variables]
        if averages:
            self._shared["average"] = tf.train.Checkpoint(average=averages)
        self._windows = windows

    def save(self) -> None:
        """Saves the state. All workers must call it at the same step."""
        step = int(self._cluster.local(self.train_step.step)[0])
        folder = self._folder / f"step-{step:08d}"
        reason = None
        try:
            self._write(folder)
        except (OSError, tf.errors.OpError) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "message", str(error))
        if any(self._cluster.gather(float(reason is not None))):
            reason = reason or "Another worker cannot write its part."
            raise OSError(f"Cannot save the state of the run in {folder}: {reason}")
        if self._cluster.is_chief:
            self._wait_for_parts(folder)
            with atomic_file(folder / _COMPLETE) as part:
                workers, replicas = self._cluster.num_workers, self._cluster.num_replicas
                marker = {"step": step, "workers": workers, "replicas": replicas}
                part.write_text(json.dumps(marker))
            # Removes older and incomplete saves.
            keep = {path for path, _ in _complete_saves(self._folder)[-_SAVES_KEPT:]} | {folder}
            for path in self._folder.iterdir():
                if path not in keep:
                    shutil.rmtree(path, ignore_errors=True)

    def _write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self._cluster.is_chief:
            for name, part in self._shared.items():
                part.write(str(folder / name))
        worker = _worker_names(self._cluster.num_workers)[self._cluster.worker]
        self._windows.write(str(folder / f"{worker}-text"))
        states = [
            # the batch rows of all replicas of this worker
            np.concatenate([np.asarray(part, np.float32) for part in self._cluster.local(state)])
            for state in tf.nest.flatten(self.train_step.states)
        ]
        with atomic_file(folder / f"{worker}-rows.npz") as part, open(part, "wb") as file:
            np.savez(file, *states)
        shared = self._shared if self._cluster.is_chief else ()
        for name in (f"{worker}-text", *shared):
            for path in folder.glob(f"{name}.*"):
                sync_to_disk(path)

    def _wait_for_parts(self, folder: Path) -> None:
        """Waits for the files of all workers; a network file system may show them late."""
        workers = _worker_names(self._cluster.num_workers)
        expected = {f"{name}{end}" for name in workers for end in ("-text.index", "-rows.npz")}
        end = time.monotonic() + _FILE_TIMEOUT
        while missing := expected - set(os.listdir(folder)):
            if time.monotonic() > end:
                raise OSError(
                    f"The save in {folder} lacks {', '.join(sorted(missing))}. All workers must "
                    "have the same work directory, on a shared disk."
                )
            time.sleep(1)

    def restore(self, first_step: int = 0) -> int:
        """Restores the last complete save, if there is one.

        The numbers of workers and replicas may differ from those of the saved run. `first_step` is
        the last step that read another text: only a later save has a position in this text, which
        is otherwise read from its beginning. Returns the step of the save, or 0 without a save.
        """
        saves = _complete_saves(self._folder)
        step = saves[-1][1]["step"] if saves else 0
        steps = self._cluster.gather(step)
        if set(steps) != {step}:
            raise ValueError(
                "The workers see different last saves, of the steps "
                f"{', '.join(f'{each:.0f}' for each in steps)}. All must have the same work "
                "directory, on a shared disk. If they have, restart all workers."
            )
        if not saves:
            return 0
        folder, content = saves[-1]
        try:
            for name, part in self._shared.items():
                part.read(str(folder / name)).assert_consumed()
            workers = _worker_names(content["workers"])
            # All workers are at the same position of the same text.
            mine = workers[self._cluster.worker % len(workers)]
            if step > first_step:
                self._windows.read(str(folder / f"{mine}-text"))
            self._restore_rows([folder / f"{worker}-rows.npz" for worker in workers])
        except _READ_ERRORS as error:
            reason = (str(error).splitlines() or [repr(error)])[0]
            raise ValueError(
                f"Cannot resume from {folder}: {reason}. If an older version of elmo_tf saved it, "
                "start a new run from its weights (--from). If it is damaged, remove it: the run "
                "then resumes from the save before."
            ) from None
        if content["replicas"] != self._cluster.num_replicas:
            logging.info(
                "The run was saved by %d replicas and is resumed with %d: model and text order are "
                "the same, but dropout masks and negative samples differ.",
                *(content["replicas"], self._cluster.num_replicas),
            )
        return content["step"]

    def _restore_rows(self, files: list[Path]) -> None:
        loaded = []
        for file in files:
            with np.load(file) as arrays:
                loaded.append([arrays[name] for name in arrays.files])
        for state, *parts in zip(tf.nest.flatten(self.train_step.states), *loaded, strict=True):
            rows = np.concatenate(parts)
            mine = rows[self._cluster.rows(len(rows))]
            replicas = self._cluster.local(state)
            for replica, value in zip(replicas, np.split(mine, len(replicas)), strict=True):
                replica.assign(tf.cast(value, replica.dtype))


def last_save(workdir: Path) -> Path | None:
    """The directory of the last complete save of a run, or None."""
    saves = _complete_saves(workdir / STATE_FOLDER)
    return saves[-1][0] if saves else None


def _complete_saves(folder: Path) -> list[tuple[Path, dict[str, int]]]:
    """Complete saves in order of their steps, with the content of `COMPLETE`."""
    saves = []
    for path in folder.glob("step-*"):
        with contextlib.suppress(FileNotFoundError, ValueError):
            saves.append((path, json.loads((path / _COMPLETE).read_text())))
    return sorted(saves, key=lambda save: save[1]["step"])


def _worker_names(count: int) -> list[str]:
    return [f"worker-{worker}-of-{count}" for worker in range(count)]


class StopRequest:
    """A context manager that records SIGINT and SIGTERM instead of ending the process.

    The training loop checks `signal` between steps. A second Ctrl-C raises `KeyboardInterrupt`
    at once. Outside of the main thread, signals keep their effect.
    """

    def __init__(self):
        self.signal = 0  # the number of the first signal
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        # Python allows only the main thread to set signal handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def end(self, number: int) -> None:
        """Ends the process as the signal would have without this class."""
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)  # the exit status of a shell

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
