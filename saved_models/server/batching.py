"""Computes the requests of several clients in one batch.

A batch of many sentences takes little longer than one sentence. Requests that arrive while the
model is busy form the next batch; an idle model starts at once, unless there is a batch timeout.
"""

import collections
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import LENGTHS, concatenate_padded
from elmo_tf.saved_models.server.limits import takes_sentences, unavailable
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.settings import Count, Natural, checked_dataclass


@checked_dataclass
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

    max_batch_size: Count = 64
    batch_timeout_micros: Natural = 0
    max_enqueued_batches: Count = 64
    num_batch_threads: Count = 1
    max_batch_tokens: Count = 16_384


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A checked request, and its future result."""

    name: str  # of the signature
    signature: meta_graph_pb2.SignatureDef
    inputs: Mapping[str, np.ndarray]
    aliases: Sequence[str]  # names of the requested outputs
    num_tokens: int = 0  # number of sentences times the tokens of the longest
    is_awaited: Callable[[], bool] = lambda: True  # whether the client still waits
    start_time: float = dataclasses.field(default_factory=time.monotonic)
    arrays: futures.Future = dataclasses.field(default_factory=futures.Future)  # of `aliases`

    @functools.cached_property
    def num_rows(self) -> int | None:
        """The number of rows, or `None` if the call cannot share a batch.

        To share a batch, the first axis of all inputs and outputs must have an unknown size in the
        signature and the same size >= 1 in the call. If the width of an output depends on the
        content of strings, padding that other calls cause can be removed only with the sentence
        lengths. Lengths beyond the call's own width would count padding as tokens: such a call runs
        alone, and the model rejects it.
        """
        outputs = self.signature.outputs.values()
        if not all(_is_variable(info, 0) for info in [*self.signature.inputs.values(), *outputs]):
            return None
        sizes = {len(array) if array.ndim else 0 for array in self.inputs.values()}
        if len(sizes) > 1 or 0 in sizes:
            return None
        width = max((array.shape[1] for array in self.inputs.values() if array.ndim > 1), default=0)
        if LENGTHS in self.inputs and self.inputs[LENGTHS].max() > width:
            return None
        has_own_width = width == 0 and any(_is_variable(info, 1) for info in outputs)
        if has_own_width and not takes_sentences(self.signature):
            return None
        return sizes.pop()

    @property
    def batch_key(self) -> Any:
        """A key that is equal for calls that may share a batch.

        If the signature returns the sentence lengths, the number of tokens may differ, since the
        model ignores padding. Otherwise all shapes but the number of rows are equal.
        """
        first = 2 if takes_sentences(self.signature) else 1
        shapes = (
            (name, array.ndim, array.shape[first:]) for name, array in sorted(self.inputs.items())
        )
        return (self.name, *shapes)

    def width(self, outputs: Mapping[str, np.ndarray]) -> int | None:
        """The number of tokens, with padding; `None` if the signature is not for sentences."""
        if not takes_sentences(self.signature):
            return None
        for array in self.inputs.values():
            if array.ndim > 1:
                return array.shape[1]
        return int(outputs[LENGTHS].max())


class Batcher:
    """Batches the calls of several threads.

    The result of a call does not depend on the other calls of its batch: padding that these cause
    is removed, and an invalid call fails alone. The argument `run` computes a batch.
    """

    def __init__(
        self,
        run: Callable[[Call], list[np.ndarray]],
        options: Batching,
        metrics: Metrics | None = None,
    ):
        self._run = run
        self._options = options
        self._metrics = metrics or Metrics()
        self._waiting: dict[Any, collections.deque[Call]] = {}  # by batch key
        self._num_waiting = 0  # rows
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batches-{index}", daemon=True)
            for index in range(options.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, call: Call) -> list[np.ndarray]:
        """Waits for the batch of a call and returns the arrays of `call.aliases`."""
        num_rows = call.num_rows
        if num_rows is None:
            return self._run(call)
        max_waiting = self._options.max_enqueued_batches * self._options.max_batch_size
        with self._changed:
            if self._closed:
                raise unavailable("The server is shutting down.")
            if self._num_waiting and self._num_waiting + num_rows > max_waiting:
                raise unavailable(
                    "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting.setdefault(call.batch_key, collections.deque()).append(call)
            self._num_waiting += num_rows
            self._changed.notify()
        return call.arrays.result()

    def close(self) -> None:
        """Computes the waiting calls and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            calls = []
            for call in batch:
                if call.is_awaited():
                    calls.append(call)
                else:
                    error = tf.errors.CancelledError(None, None, "The client has disconnected.")
                    call.arrays.set_exception(error)
            if calls:
                self._metrics.observe_batch(
                    calls[0].name,
                    sum(call.num_rows for call in calls),
                    [time.monotonic() - call.start_time for call in calls],
                )
                self._compute(calls)

    def _next_batch(self) -> list[Call] | None:
        """Waits for the next batch: calls with the batch key of the oldest; `None` if closed."""
        with self._changed:
            while not self._closed or self._waiting:
                if not self._waiting:
                    self._changed.wait()
                    continue
                seconds, _, key = min(
                    (self._seconds_left(calls), calls[0].start_time, key)
                    for key, calls in self._waiting.items()
                )
                if seconds <= 0:
                    return self._take(key)
                self._changed.wait(seconds)
        return None

    def _seconds_left(self, calls: collections.deque[Call]) -> float:
        """Seconds that the oldest call may still wait for others."""
        is_full = sum(call.num_rows for call in calls) >= self._options.max_batch_size
        if is_full or self._closed:
            return 0.0
        waited = time.monotonic() - calls[0].start_time
        return max(0.0, self._options.batch_timeout_micros / 1e6 - waited)

    def _take(self, key: Any) -> list[Call]:
        calls = self._waiting[key]
        batch, num_rows, longest = [], 0, 0
        while calls:
            num_rows += calls[0].num_rows
            longest = max(longest, calls[0].num_tokens // calls[0].num_rows)
            is_full = (
                num_rows > self._options.max_batch_size
                or num_rows * longest > self._options.max_batch_tokens
            )
            if batch and is_full:
                break
            batch.append(calls.popleft())
        if not calls:
            del self._waiting[key]
        self._num_waiting -= sum(call.num_rows for call in batch)
        return batch

    def _compute(self, calls: list[Call]) -> None:
        try:
            results = self._run_together(calls) if calls[1:] else [self._run(calls[0])]
        except Exception as error:
            if len(calls) == 1:
                calls[0].arrays.set_exception(error)
                return
            for call in calls:  # so that only invalid calls fail
                self._compute([call])
            return
        for call, arrays in zip(calls, results, strict=True):
            call.arrays.set_result(arrays)

    def _run_together(self, calls: list[Call]) -> list[list[np.ndarray]]:
        """Returns each call's rows of its outputs, without the padding caused by other calls.

        It is a `ValueError` if an output has not one row per input row or one column per token.
        """
        signature = calls[0].signature
        aliases = {alias for call in calls for alias in call.aliases}
        if takes_sentences(signature):
            aliases.add(LENGTHS)
        inputs = {
            key: concatenate_padded([call.inputs[key] for call in calls])
            for key in signature.inputs
        }
        batch = Call(calls[0].name, signature, inputs, sorted(aliases))
        outputs = dict(zip(batch.aliases, self._run(batch), strict=True))
        width, with_tokens = batch.width(outputs), set()
        if width is not None:
            with_tokens = {a for a in outputs if _is_variable(signature.outputs[a], 1)}
        num_rows = sum(call.num_rows for call in calls)
        for alias, array in outputs.items():
            if len(array) != num_rows or (alias in with_tokens and array.shape[1] != width):
                raise ValueError(f"The output {alias} of {batch.name} has the shape {array.shape}.")
        results, start = [], 0
        for call in calls:
            rows = {alias: array[start : start + call.num_rows] for alias, array in outputs.items()}
            start += call.num_rows
            width = call.width(rows)
            for alias in with_tokens:
                rows[alias] = rows[alias][:, :width]
            results.append([rows[alias] for alias in call.aliases])
        return results


def _is_variable(info: meta_graph_pb2.TensorInfo, axis: int) -> bool:
    """Whether the signature leaves the size of an axis open."""
    dims = info.tensor_shape.dim
    return not info.tensor_shape.unknown_rank and len(dims) > axis and dims[axis].size == -1
