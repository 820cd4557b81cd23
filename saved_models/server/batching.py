"""Requests of several callers ─► one run of the model ─► each caller's own rows.

A run of many sentences takes little longer than a run of one. Batches form by themselves while the
model is busy; nobody waits while it is idle, unless a time to wait is asked for.
"""

import collections
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.saved_models.answers import LENGTHS
from elmo_tf.saved_models.config_protos import DEFAULT_MAX_BATCH_SIZE, read_batching_parameters
from elmo_tf.saved_models.server.batch_rows import (
    Call,
    check_widths,
    joined,
    kind_of,
    padded_length,
    rows_of,
    share,
)
from elmo_tf.saved_models.server.errors import unavailable
from elmo_tf.saved_models.server.limits import takes_sentences
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.threads import num_cores


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are computed together; TF Serving's parameters of the same names.

    Args:
        max_batch_size: sentences of a batch. A larger request is a batch of its own.
        batch_timeout_micros: that a request may wait for others while the model is idle.
        max_enqueued_batches: full batches that may wait; requests beyond are refused as
            UNAVAILABLE.
        num_batch_threads: batches that are computed at the same time.
        max_batch_tokens: sentences of a batch times the tokens of its longest, which is what takes
            memory. TF Serving has no such bound.

    Raises:
        ValueError: one is less than 1, or the time less than 0.
    """

    max_batch_size: int = 64
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 1
    max_batch_tokens: int = 16_384

    def __post_init__(self):
        for field in dataclasses.fields(self):
            least = 0 if field.name == "batch_timeout_micros" else 1
            value = getattr(self, field.name)
            if value < least:
                raise ValueError(f"{field.name} must be at least {least}, but is {value}.")

    @classmethod
    def of_file(cls, path: str | os.PathLike) -> "Batching":
        """As TF Serving's `batching_parameters.txt` says, and its defaults for what it leaves out.

        Raises:
            ValueError: the file is no such one.
            OSError: it cannot be read.
        """
        parameters = read_batching_parameters(path)
        given = {
            name: getattr(parameters, name).value
            for name in (
                "max_batch_size",
                "batch_timeout_micros",
                "max_enqueued_batches",
                "num_batch_threads",
            )
            if parameters.HasField(name)
        }
        defaults = {
            "max_batch_size": DEFAULT_MAX_BATCH_SIZE,
            "max_enqueued_batches": 10,
            "num_batch_threads": num_cores(),
        }
        return cls(**{**defaults, **given})


DEFAULT_BATCHING = Batching()


# From a signature's name, inputs, and names of outputs.
Run = Callable[[str, Mapping[str, np.ndarray], Sequence[str]], list[np.ndarray]]


class Batcher:
    """Computes calls of several threads together.

    Each gets what it would get by itself, whoever else is in its batch: rows are cut out of the
    batch's, and the padding that longer sentences of others brought is cut off. A call that is
    wrong fails alone.

    Args:
        run: computes a signature's outputs.
        options: sizes and times.
        metrics: are told of each batch.
    """

    def __init__(self, run: Run, options: Batching, metrics: Metrics | None = None):
        self._run = run
        self._options = options
        self._metrics = metrics or Metrics()
        self._waiting: dict[Any, collections.deque[_Task]] = {}
        self._num_waiting = 0  # rows
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batches-{number}", daemon=True)
            for number in range(options.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, call: Call) -> list[np.ndarray]:
        """The arrays of `call.aliases`; waits for its batch.

        Raises:
            tf.errors.OpError: the call is wrong, or too many wait.
        """
        num_rows = rows_of(call)
        if num_rows is None:
            return self._run(call.name, call.inputs, call.aliases)
        task = _Task(call, num_rows)
        most = self._options.max_enqueued_batches * self._options.max_batch_size
        with self._changed:
            if self._closed:
                raise unavailable("The server is shutting down.")
            if self._num_waiting and self._num_waiting + num_rows > most:
                raise unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting.setdefault(kind_of(call), collections.deque()).append(task)
            self._num_waiting += num_rows
            self._changed.notify()
        task.done.wait()
        if task.error is not None:
            raise task.error
        return task.arrays

    def close(self) -> None:
        """Ends the threads, after what waits has been computed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (tasks := self._next()) is not None:
            tasks = [task for task in tasks if not task.has_gone()]
            if tasks:
                self._metrics.observe_batch(
                    tasks[0].call.name,
                    sum(task.num_rows for task in tasks),
                    [time.monotonic() - task.begun for task in tasks],
                )
                self._compute(tasks)

    def _next(self) -> "list[_Task] | None":
        """Waits for the next batch: the oldest call with those like it. `None` is the end."""
        with self._changed:
            while not self._closed or self._waiting:
                if not self._waiting:
                    self._changed.wait()
                    continue
                left, _, kind = min(
                    (self._time_left(tasks), tasks[0].begun, kind)
                    for kind, tasks in self._waiting.items()
                )
                if left > 0:
                    self._changed.wait(left)
                    continue
                return self._take(kind)
        return None

    def _time_left(self, tasks: "collections.deque[_Task]") -> float:
        """Seconds that the oldest may still wait for others."""
        is_full = sum(task.num_rows for task in tasks) >= self._options.max_batch_size
        if is_full or self._closed:
            return 0.0
        waited = time.monotonic() - tasks[0].begun
        return max(0.0, self._options.batch_timeout_micros / 1e6 - waited)

    def _take(self, kind: Any) -> "list[_Task]":
        tasks = self._waiting[kind]
        batch = [tasks.popleft()]
        num_rows, longest = batch[0].num_rows, batch[0].longest
        while tasks:
            num_rows += tasks[0].num_rows
            longest = max(longest, tasks[0].longest)
            if (
                num_rows > self._options.max_batch_size
                or num_rows * longest > self._options.max_batch_tokens
            ):
                break
            batch.append(tasks.popleft())
        if not tasks:
            del self._waiting[kind]
        self._num_waiting -= sum(task.num_rows for task in batch)
        return batch

    def _compute(self, tasks: "list[_Task]") -> None:
        try:
            if len(tasks) == 1:
                call = tasks[0].call
                tasks[0].finish(self._run(call.name, call.inputs, call.aliases))
                return
            shares = self._shares(tasks)
        except Exception as error:
            if len(tasks) == 1:
                tasks[0].fail(error)
                return
            for task in tasks:  # One of them is wrong: the others are not to suffer.
                self._compute([task])
            return
        for task, arrays in zip(tasks, shares, strict=True):
            task.finish(arrays)

    def _shares(self, tasks: "list[_Task]") -> list[list[np.ndarray]]:
        """Computes several calls at once. Returns the arrays of each."""
        signature = tasks[0].call.signature
        aliases = sorted({alias for task in tasks for alias in task.call.aliases})
        extra = [LENGTHS] if takes_sentences(signature) and LENGTHS not in aliases else []
        inputs = {
            name: joined([task.call.inputs[name] for task in tasks]) for name in signature.inputs
        }
        found = self._run(tasks[0].call.name, inputs, aliases + extra)
        num_rows = sum(task.num_rows for task in tasks)
        if any(len(array) != num_rows for array in found):
            raise ValueError(f"The outputs of {tasks[0].call.name} are not one row for each input.")
        arrays = dict(zip(aliases + extra, found, strict=True))
        check_widths(signature, inputs, arrays)
        shares, start = [], 0
        for task in tasks:
            rows = slice(start, start + task.num_rows)
            start = rows.stop
            length = padded_length(task.call, arrays, rows)
            shares.append(
                [
                    share(arrays[alias][rows], signature.outputs[alias], length)
                    for alias in task.call.aliases
                ]
            )
        return shares


class _Task:
    """A call that waits, and then its arrays or its error."""

    def __init__(self, call: Call, num_rows: int):
        self.call = call
        self.num_rows = num_rows
        self.longest = call.num_tokens // max(1, num_rows)  # tokens
        self.begun = time.monotonic()
        self.done = threading.Event()
        self.arrays: list[np.ndarray] = []
        self.error: Exception | None = None

    def has_gone(self) -> bool:
        """Whether nobody waits for it any more; then it is done."""
        if self.call.is_awaited():
            return False
        self.fail(tf.errors.CancelledError(None, None, "The caller has gone."))
        return True

    def finish(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self.done.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.done.set()
