"""The rows of a batch: calls that may share a batch, and the rows of each call."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.answers import LENGTHS
from elmo_tf.saved_models.server.limits import takes_sentences


@dataclasses.dataclass(frozen=True)
class Call:
    """A checked request.

    Args:
        name: of the signature.
        signature: the signature.
        inputs: arrays by name.
        aliases: names of the requested outputs.
        num_tokens: number of sentences times the tokens of the longest.
        is_awaited: returns whether the client still waits.
    """

    name: str
    signature: meta_graph_pb2.SignatureDef
    inputs: Mapping[str, np.ndarray]
    aliases: Sequence[str]
    num_tokens: int = 0
    is_awaited: Callable[[], bool] = lambda: True


def num_rows_of(call: Call) -> int | None:
    """Returns the number of rows of a call, or `None` if it cannot share a batch.

    To share a batch, the first axis of all inputs and outputs must have an unknown size in the
    signature and the same size >= 1 in the call. If the width of an output depends on the
    content of strings, padding that other calls cause can be removed only with the sentence
    lengths. Lengths beyond the call's own width would count padding as tokens: such a call runs
    alone, and the model rejects it.
    """
    infos = [*call.signature.inputs.values(), *call.signature.outputs.values()]
    if not all(_is_variable(info, 0) for info in infos):
        return None
    sizes = {len(array) if array.ndim else 0 for array in call.inputs.values()}
    if len(sizes) > 1 or 0 in sizes:
        return None
    width = max((array.shape[1] for array in call.inputs.values() if array.ndim > 1), default=0)
    if LENGTHS in call.inputs and call.inputs[LENGTHS].max() > width:
        return None
    outputs = call.signature.outputs.values()
    has_own_width = width == 0 and any(_is_variable(info, 1) for info in outputs)
    if has_own_width and not takes_sentences(call.signature):
        return None
    return sizes.pop()


def batch_key(call: Call) -> Any:
    """Returns a key that is equal for calls that may share a batch.

    If the signature returns the sentence lengths, the number of tokens may differ, since the model
    ignores padding. Otherwise all shapes but the number of rows are equal.
    """
    first = 2 if takes_sentences(call.signature) else 1
    shapes = (
        (name, array.ndim, array.shape[first:]) for name, array in sorted(call.inputs.items())
    )
    return (call.name, *shapes)


def split_outputs(
    calls: Sequence[Call],
    num_rows: Sequence[int],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> list[list[np.ndarray]]:
    """Returns each call's rows of its outputs, without the padding caused by other calls.

    Args:
        calls: the calls of a batch.
        num_rows: of each call.
        inputs: of the batch.
        outputs: of the batch, with `sequence_len` if the signature has it.

    Raises:
        ValueError: an output has not one row per input row, or not one column per token.
    """
    signature = calls[0].signature
    width = _width(signature, inputs, outputs)
    with_tokens = {
        alias
        for alias in outputs
        if width is not None and _is_variable(signature.outputs[alias], 1)
    }
    for alias, array in outputs.items():
        if len(array) != sum(num_rows) or (alias in with_tokens and array.shape[1] != width):
            raise ValueError(f"The output {alias} of {calls[0].name} has the shape {array.shape}.")
    results, start = [], 0
    for call, size in zip(calls, num_rows, strict=True):
        own = {alias: array[start : start + size] for alias, array in outputs.items()}
        start += size
        width = _width(signature, call.inputs, own)
        for alias in with_tokens:
            own[alias] = own[alias][:, :width]
        results.append([own[alias] for alias in call.aliases])
    return results


def _is_variable(info: meta_graph_pb2.TensorInfo, axis: int) -> bool:
    """Whether the signature leaves the size of an axis open."""
    dims = info.tensor_shape.dim
    return not info.tensor_shape.unknown_rank and len(dims) > axis and dims[axis].size == -1


def _width(
    signature: meta_graph_pb2.SignatureDef,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> int | None:
    """Returns the number of tokens, with padding; `None` if the signature is not for sentences."""
    if not takes_sentences(signature):
        return None
    for array in inputs.values():
        if array.ndim > 1:
            return array.shape[1]
    return int(outputs[LENGTHS].max())
