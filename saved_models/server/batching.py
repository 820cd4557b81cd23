"""Computes the requests of several clients in one batch.

A batch of many sentences takes little longer than one sentence. An idle model starts at once;
requests that arrive while it is busy form the next batch.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import LENGTHS, concatenate_padded
from elmo_tf.saved_models.server.limits import unavailable

_MAX_WAITING = 4096  # rows
_MAX_TOKENS = 16_384  # of a batch, with padding: they determine its memory


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A checked request, and its future result."""

    name: str  # of the signature
    signature: meta_graph_pb2.SignatureDef
    inputs: Mapping[str, np.ndarray]
    aliases: Sequence[str]  # names of the requested outputs
    num_tokens: int = 0  # number of sentences times the tokens of the longest
    is_awaited: Callable[[], bool] = lambda: True  # whether the client still waits
    arrays: futures.Future = dataclasses.field(default_factory=futures.Future)  # of `aliases`

    @property
    def num_rows(self) -> int:
        """The number of rows, if the call has a batch key."""
        return len(next(iter(self.inputs.values())))

    @functools.cached_property
    def batch_key(self) -> Any:
        """A key that is equal for calls that may share a batch; `None` for a call that runs alone.

        The first axis of all inputs and outputs must have an unknown size in the signature, and the
        same size >= 1 in the call. If the model returns the sentence lengths, it ignores padding,
        and the number of tokens may differ. Lengths beyond the call's own width would count padding
        as tokens: such a call runs alone, and the model rejects it. Without the sentence lengths,
        padding that other calls cause cannot be removed from outputs of strings.
        """
        outputs = self.signature.outputs.values()
        if not all(_is_variable(info, 0) for info in [*self.signature.inputs.values(), *outputs]):
            return None
        sizes = {len(array) if array.ndim else 0 for array in self.inputs.values()}
        if len(sizes) > 1 or 0 in sizes:
            return None
        width = self.input_width
        if LENGTHS in self.inputs and self.inputs[LENGTHS].max() > (width or 0):
            return None
        has_lengths = LENGTHS in self.signature.outputs
        if width is None and not has_lengths and any(_is_variable(info, 1) for info in outputs):
            return None
        first = 2 if has_lengths else 1
        shapes = {name: (array.ndim, *array.shape[first:]) for name, array in self.inputs.items()}
        return self.name, *sorted(shapes.items())

    @property
    def input_width(self) -> int | None:
        """The number of tokens in the inputs, with padding; `None` for strings."""
        return next((array.shape[1] for array in self.inputs.values() if array.ndim > 1), None)

    def width(self, outputs: Mapping[str, np.ndarray]) -> int:
        """The number of tokens in the outputs, with padding."""
        return int(outputs[LENGTHS].max()) if self.input_width is None else self.input_width


class Batcher:
    """Batches the calls of several threads.

    The result of a call does not depend on the other calls of its batch: padding that these cause
    is removed, and an invalid call fails alone. The argument `run` computes a batch.
    """

    def __init__(self, run: Callable[[Call], list[np.ndarray]], max_batch_size: int):
        self._run = run
        self._max_batch_size = max_batch_size
        self._waiting: list[Call] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    def run(self, call: Call) -> list[np.ndarray]:
        """Waits for the batch of a call and returns the arrays of `call.aliases`."""
        if call.batch_key is None:
            return self._run(call)
        with self._changed:
            num_rows = sum(waiting.num_rows for waiting in self._waiting) + call.num_rows
            if self._waiting and num_rows > _MAX_WAITING:
                raise unavailable("Too many requests are waiting. Try again later.")
            self._waiting.append(call)
            self._changed.notify()
        return call.arrays.result()

    def close(self) -> None:
        """Ends the thread. No calls may be waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                batch = self._take()
            for call in batch:
                if not call.is_awaited():
                    error = tf.errors.CancelledError(None, None, "The client has disconnected.")
                    call.arrays.set_exception(error)
            self._compute([call for call in batch if not call.arrays.done()])

    def _take(self) -> list[Call]:
        """Removes the next batch: the oldest call, and those behind it that fit in its batch."""
        batch, num_rows, longest = [], 0, 0
        for call in self._waiting:
            if call.batch_key != self._waiting[0].batch_key:
                continue
            num_rows += call.num_rows
            longest = max(longest, call.num_tokens // call.num_rows)
            if batch and (num_rows > self._max_batch_size or num_rows * longest > _MAX_TOKENS):
                break
            batch.append(call)
        taken = set(batch)
        self._waiting = [call for call in self._waiting if call not in taken]
        return batch

    def _compute(self, calls: list[Call]) -> None:
        if len(calls) > 1:
            try:
                results = self._run_together(calls)
            except Exception:  # only invalid calls fail
                results = None
            else:
                for call, arrays in zip(calls, results, strict=True):
                    call.arrays.set_result(arrays)
                return
        for call in calls:
            try:
                call.arrays.set_result(self._run(call))
            except Exception as error:
                call.arrays.set_exception(error)

    def _run_together(self, calls: list[Call]) -> list[list[np.ndarray]]:
        """Returns each call's rows of its outputs, without the padding caused by other calls.

        It is a `ValueError` if an output has not one row per input row or one column per token.
        """
        signature = calls[0].signature
        aliases = {alias for call in calls for alias in call.aliases}
        with_tokens = set()
        if LENGTHS in signature.outputs:
            aliases.add(LENGTHS)
            with_tokens = {a for a in aliases if _is_variable(signature.outputs[a], 1)}
        inputs = {
            key: concatenate_padded([call.inputs[key] for call in calls])
            for key in signature.inputs
        }
        batch = Call(calls[0].name, signature, inputs, sorted(aliases))
        outputs = dict(zip(batch.aliases, self._run(batch), strict=True))
        width = batch.width(outputs) if with_tokens else None
        for alias, array in outputs.items():
            is_wrong = alias in with_tokens and array.shape[1] != width
            if is_wrong or len(array) != sum(call.num_rows for call in calls):
                raise ValueError(f"The output {alias} of {batch.name} has the shape {array.shape}.")
        results, start = [], 0
        for call in calls:
            rows = {alias: array[start : start + call.num_rows] for alias, array in outputs.items()}
            start += call.num_rows
            for alias in with_tokens:
                rows[alias] = rows[alias][:, : call.width(rows)]
            results.append([rows[alias] for alias in call.aliases])
        return results


def _is_variable(info: meta_graph_pb2.TensorInfo, axis: int) -> bool:
    """Whether the signature leaves the size of an axis open."""
    dims = info.tensor_shape.dim
    return not info.tensor_shape.unknown_rank and len(dims) > axis and dims[axis].size == -1
