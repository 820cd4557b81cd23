"""The limits of a request, and the computation of several requests in one batch.

A batch of many sentences takes little longer than one sentence. An idle model starts at once;
requests that arrive while it is busy form the next batch. All modules of the server raise a
`tf.errors.OpError` for a request that is rejected.
"""

import contextlib
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Annotated, Any

import grpc
import numpy as np
import tensorflow as tf
from pydantic import Field
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import LENGTHS, concatenate_padded
from elmo_tf.settings import Count, checked_dataclass

_MAX_TOKENS = 16_384  # of a batch, with padding: they determine its memory
_MAX_MESSAGE = 500  # characters: gRPC limits a message to 8 KB, escaped
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}

# Errors of requests: malformed, or of an unknown model.
invalid = functools.partial(tf.errors.InvalidArgumentError, None, None)
not_found = functools.partial(tf.errors.NotFoundError, None, None)


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Returns the code and the message of an error for clients."""
    code, message = grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}"
    if isinstance(error, tf.errors.OpError):
        code = _STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)
        message = error.message
    return code, message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"


@checked_dataclass
class Limits:
    """The limits of a request, above which it is rejected, and of a batch.

    Args:
        max_request_bytes: of a message, and of each tensor in it, below 2 GiB.
        max_tokens: of a request: number of sentences times the tokens of the longest.
        max_batch_size: sentences of several requests that are computed together. 1 computes each
            request alone, as a model with layer normalization needs.
    """

    max_request_bytes: Annotated[int, Field(ge=1, lt=2**31)] = 8 * 1024 * 1024
    max_tokens: Count = 65_536
    max_batch_size: Count = 64

    def check_size(
        self, alias: str, dtype: int, shape: Sequence[int], strings: Sequence[bytes] = ()
    ) -> None:
        """Checks the size of a tensor before it is decoded.

        A small message may hold a large tensor: the last of too few values is repeated.
        """
        element_size = 16 if dtype == tf.string.as_datatype_enum else tf.as_dtype(dtype).size
        # An empty axis counts as 1, because the other axes cost time even without rows.
        num_elements = math.prod(max(1, size) for size in shape)
        num_bytes = num_elements * element_size
        if strings:
            num_bytes += len(strings[-1]) * max(0, num_elements - len(strings))
        if num_bytes > self.max_request_bytes:
            raise invalid(
                f"{alias} has the shape {list(shape)}, which is more than "
                f"{self.max_request_bytes} bytes."
            )

    def check_tokens(self, inputs: Mapping[str, np.ndarray], is_raw: bool = False) -> int:
        """Checks and returns the number of tokens of a request, with padding.

        In raw text, `is_raw`, each byte may be a token.
        """
        arrays = [array for array in inputs.values() if array.ndim]
        num_sentences = max([1, *map(len, arrays)])
        longest = max([1, *(self._longest(array, is_raw) for array in arrays)])
        num_tokens = num_sentences * longest
        if num_tokens > self.max_tokens:
            raise invalid(
                f"The request has {num_sentences} sentences, the longest with {longest} tokens or "
                f"more; their product must be at most {self.max_tokens}. Send fewer or shorter "
                "sentences at once."
            )
        return num_tokens

    def _longest(self, array: np.ndarray, is_raw: bool) -> int:
        """Counts the tokens of the longest row, but none above the limit."""
        if array.ndim > 1:
            return array.shape[1]
        texts = array.tolist() if array.dtype == object else []
        if not is_raw:
            limit = self.max_tokens // max(1, len(texts))
            texts = (text.decode("utf-8", "replace").split(None, limit) for text in texts)
        return max(map(len, texts), default=0)


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A checked request, and its future result. Cancelling `arrays` withdraws the request."""

    name: str  # of the signature
    signature: meta_graph_pb2.SignatureDef
    inputs: Mapping[str, np.ndarray]
    aliases: Sequence[str]  # names of the requested outputs
    num_tokens: int = 0  # number of sentences times the tokens of the longest
    arrays: futures.Future = dataclasses.field(default_factory=futures.Future)  # of `aliases`

    @property
    def num_rows(self) -> int:
        """The number of rows, if the call has a batch key."""
        return len(next(iter(self.inputs.values())))

    @functools.cached_property
    def batch_key(self) -> Any:
        """A key that is equal for calls that may share a batch; `None` for a call that runs alone.

        The first axis must be open in the signature, and of one size >= 1 in the call. A model that
        returns the sentence lengths ignores padding: the number of tokens may differ. Lengths
        beyond the call's own width would count padding as tokens; the model rejects such a call.
        Without lengths, padding cannot be removed from outputs.
        """
        outputs = self.signature.outputs.values()
        if not all(_is_variable(info, 0) for info in [*self.signature.inputs.values(), *outputs]):
            return None
        sizes = set(map(len, self.inputs.values()))
        if len(sizes) != 1 or 0 in sizes:
            return None
        if LENGTHS in self.inputs and self.inputs[LENGTHS].max() > (self.input_width or 0):
            return None
        has_lengths = LENGTHS in self.signature.outputs
        if not has_lengths and any(_is_variable(info, 1) for info in outputs):
            return None
        first = 2 if has_lengths else 1
        shapes = {name: (array.ndim, *array.shape[first:]) for name, array in self.inputs.items()}
        return self.name, *sorted(shapes.items())

    @property
    def input_width(self) -> int | None:
        """The number of tokens in the inputs, with padding; `None` for strings."""
        # Not `parts`: a word may have several.
        names = (name for name in ("tokens", "char_ids") if name in self.inputs)
        return next((self.inputs[name].shape[1] for name in names), None)

    def width(self, outputs: Mapping[str, np.ndarray]) -> int:
        """The number of tokens in the outputs, with padding."""
        return self.input_width or max(1, int(outputs[LENGTHS].max()))


class Batcher:
    """Computes calls of several threads, one batch after another, in a thread of its own.

    The result of a call does not depend on the other calls of its batch: padding that these cause
    is removed, and an invalid call fails alone. The argument `run` computes a batch.
    """

    def __init__(self, run: Callable[[Call], list[np.ndarray]], max_batch_size: int):
        self._run = run
        self._max_batch_size = max_batch_size
        self._waiting: list[Call] = []
        self._lock = threading.Lock()
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="batches")

    def run(self, call: Call) -> list[np.ndarray]:
        """Waits for the batch of a call and returns the arrays of `call.aliases`."""
        with self._lock:
            self._waiting.append(call)
        self._thread.submit(self._compute_next)
        try:
            return call.arrays.result()
        except futures.CancelledError:
            with self._lock:
                self._waiting = [other for other in self._waiting if other is not call]
            raise tf.errors.CancelledError(None, None, "The client has disconnected.") from None

    def close(self) -> None:
        """Ends the thread after the waiting calls."""
        self._thread.shutdown()

    def _compute_next(self) -> None:
        with self._lock:
            batch = self._take()
        calls = [call for call in batch if call.arrays.set_running_or_notify_cancel()]
        with contextlib.suppress(Exception):  # only invalid calls fail, below
            if len(calls) > 1:
                for call, arrays in zip(calls, self._run_together(calls), strict=True):
                    call.arrays.set_result(arrays)
        for call in calls:
            if not call.arrays.done():
                try:
                    call.arrays.set_result(self._run(call))
                except Exception as error:
                    call.arrays.set_exception(error)

    def _take(self) -> list[Call]:
        """Removes the next batch: the oldest call, and those behind it that fit in its batch."""
        batch = self._waiting[:1]
        for call in self._waiting[1:]:
            if call.batch_key is None or call.batch_key != batch[0].batch_key:
                continue
            larger = [*batch, call]
            num_rows = sum(each.num_rows for each in larger)
            longest = max(each.num_tokens // each.num_rows for each in larger)
            if num_rows > self._max_batch_size or num_rows * longest > _MAX_TOKENS:
                break
            batch = larger
        self._waiting = [call for call in self._waiting if call not in batch]
        return batch

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
            if is_wrong or len(array) != batch.num_rows:
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
    return len(dims) > axis and dims[axis].size == -1
