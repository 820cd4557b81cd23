"""Computes the requests of several clients in one batch.

A batch of many sentences takes little longer than one sentence. Requests that arrive while the
model is busy form the next batch; an idle model starts at once, unless there is a batch timeout.
"""

import collections
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.saved_models.answers import LENGTHS, concatenate_padded
from elmo_tf.saved_models.config_protos import read_batching_parameters
from elmo_tf.saved_models.server.batch_rows import Call, batch_key, num_rows_of, split_outputs
from elmo_tf.saved_models.server.errors import unavailable
from elmo_tf.saved_models.server.limits import takes_sentences
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.threads import num_cores


@dataclasses.dataclass(frozen=True)
class Batching:
    """Parameters of batching, with the names of TF Serving.

    Args:
        max_batch_size: sentences of a batch. A larger request is a separate batch.
        batch_timeout_micros: how long an idle model waits for more requests, in microseconds.
        max_enqueued_batches: full batches in the queue; further requests are UNAVAILABLE.
        num_batch_threads: batches that are computed in parallel.
        max_batch_tokens: sentences of a batch times the tokens of its longest, which determines the
            memory. TF Serving has no such limit.

    Raises:
        ValueError: a value is less than 1, or the timeout is negative.
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
        """Reads TF Serving's `batching_parameters.txt`; omitted values are TF Serving's defaults.

        Raises:
            ValueError: the file cannot be parsed, or a value is too small.
            OSError: the file cannot be read.
        """
        parameters = read_batching_parameters(path)
        values = {
            "max_batch_size": 1000,
            "batch_timeout_micros": 0,
            "max_enqueued_batches": 10,
            "num_batch_threads": num_cores(),
        }
        for name in values:
            if parameters.HasField(name):
                values[name] = getattr(parameters, name).value
        return cls(**values)


DEFAULT_BATCHING = Batching()

# Arguments: name of the signature, inputs, names of the outputs.
Run = Callable[[str, Mapping[str, np.ndarray], Sequence[str]], list[np.ndarray]]


class Batcher:
    """Batches the calls of several threads.

    The result of a call does not depend on the other calls of its batch: padding that these cause
    is removed, and an invalid call fails alone. The argument `run` computes a batch.
    """

    def __init__(self, run: Run, options: Batching, metrics: Metrics | None = None):
        self._run = run
        self._options = options
        self._metrics = metrics or Metrics()
        self._waiting: dict[Any, collections.deque[_Task]] = {}  # by `batch_key`
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
        """Waits for the batch of a call and returns the arrays of `call.aliases`.

        Raises:
            tf.errors.OpError: the call is invalid, or the queue is full.
        """
        num_rows = num_rows_of(call)
        if num_rows is None:
            return self._run(call.name, call.inputs, call.aliases)
        task = _Task(call, num_rows)
        max_waiting = self._options.max_enqueued_batches * self._options.max_batch_size
        with self._changed:
            if self._closed:
                raise unavailable("The server is shutting down.")
            if self._num_waiting and self._num_waiting + num_rows > max_waiting:
                raise unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting.setdefault(batch_key(call), collections.deque()).append(task)
            self._num_waiting += num_rows
            self._changed.notify()
        return task.arrays.result()

    def close(self) -> None:
        """Computes the waiting calls and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            tasks = []
            for task in batch:
                if task.call.is_awaited():
                    tasks.append(task)
                else:
                    error = tf.errors.CancelledError(None, None, "The client has disconnected.")
                    task.arrays.set_exception(error)
            if tasks:
                self._metrics.observe_batch(
                    tasks[0].call.name,
                    sum(task.num_rows for task in tasks),
                    [time.monotonic() - task.start_time for task in tasks],
                )
                self._compute(tasks)

    def _next_batch(self) -> "list[_Task] | None":
        """Waits for the next batch: tasks with the `batch_key` of the oldest; `None` if closed."""
        with self._changed:
            while not self._closed or self._waiting:
                if not self._waiting:
                    self._changed.wait()
                    continue
                seconds, _, key = min(
                    (self._seconds_left(tasks), tasks[0].start_time, key)
                    for key, tasks in self._waiting.items()
                )
                if seconds <= 0:
                    return self._take(key)
                self._changed.wait(seconds)
        return None

    def _seconds_left(self, tasks: "collections.deque[_Task]") -> float:
        """Seconds that the oldest task may still wait for others."""
        is_full = sum(task.num_rows for task in tasks) >= self._options.max_batch_size
        if is_full or self._closed:
            return 0.0
        waited = time.monotonic() - tasks[0].start_time
        return max(0.0, self._options.batch_timeout_micros / 1e6 - waited)

    def _take(self, key: Any) -> "list[_Task]":
        tasks = self._waiting[key]
        batch, num_rows, longest = [], 0, 0
        while tasks:
            num_rows += tasks[0].num_rows
            longest = max(longest, tasks[0].longest)
            is_full = (
                num_rows > self._options.max_batch_size
                or num_rows * longest > self._options.max_batch_tokens
            )
            if batch and is_full:
                break
            batch.append(tasks.popleft())
        if not tasks:
            del self._waiting[key]
        self._num_waiting -= sum(task.num_rows for task in batch)
        return batch

    def _compute(self, tasks: "list[_Task]") -> None:
        try:
            if len(tasks) == 1:
                call = tasks[0].call
                results = [self._run(call.name, call.inputs, call.aliases)]
            else:
                results = self._run_together(tasks)
        except Exception as error:
            if len(tasks) == 1:
                tasks[0].arrays.set_exception(error)
                return
            for task in tasks:  # so that only invalid calls fail
                self._compute([task])
            return
        for task, arrays in zip(tasks, results, strict=True):
            task.arrays.set_result(arrays)

    def _run_together(self, tasks: "list[_Task]") -> list[list[np.ndarray]]:
        calls = [task.call for task in tasks]
        name, signature = calls[0].name, calls[0].signature
        aliases = {alias for call in calls for alias in call.aliases}
        if takes_sentences(signature):
            aliases.add(LENGTHS)
        aliases = sorted(aliases)
        inputs = {
            key: concatenate_padded([call.inputs[key] for call in calls])
            for key in signature.inputs
        }
        outputs = dict(zip(aliases, self._run(name, inputs, aliases), strict=True))
        return split_outputs(calls, [task.num_rows for task in tasks], inputs, outputs)


@dataclasses.dataclass
class _Task:
    """A waiting call and its future arrays."""

    call: Call
    num_rows: int
    start_time: float = dataclasses.field(default_factory=time.monotonic)
    arrays: futures.Future = dataclasses.field(default_factory=futures.Future)

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence."""
        return self.call.num_tokens // max(1, self.num_rows)
