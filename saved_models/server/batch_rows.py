"""The rows of a batch: which calls may share one, how they are put together and taken apart."""

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
        name: of its signature.
        signature: that is asked.
        inputs: arrays by their names.
        aliases: names of the outputs that are wanted.
        num_tokens: sentences times the tokens of the longest.
        is_awaited: whether who asked still waits.
    """

    name: str
    signature: meta_graph_pb2.SignatureDef
    inputs: Mapping[str, np.ndarray]
    aliases: Sequence[str]
    num_tokens: int = 0
    is_awaited: Callable[[], bool] = lambda: True


def rows_of(call: Call) -> int | None:
    """Rows of a call that may share a batch; `None` if it may not.

    All inputs and outputs must have a first axis of unknown size, and the call's the same number of
    rows, at least one. Lengths beyond the call's own tokens would take in its padding: the model is
    to refuse them.
    """
    infos = [*call.signature.inputs.values(), *call.signature.outputs.values()]
    if not all(_has_open_axis(info, 0) for info in infos):
        return None
    sizes = {len(array) if array.ndim else 0 for array in call.inputs.values()}
    if len(sizes) > 1 or 0 in sizes:
        return None
    longest = max((array.shape[1] for array in call.inputs.values() if array.ndim > 1), default=0)
    if LENGTHS in call.inputs and call.inputs[LENGTHS].max() > longest:
        return None
    return sizes.pop()


def _has_open_axis(info: meta_graph_pb2.TensorInfo, axis: int) -> bool:
    dims = info.tensor_shape.dim
    return not info.tensor_shape.unknown_rank and len(dims) > axis and dims[axis].size == -1


def kind_of(call: Call) -> Any:
    """What calls must have in common to share a batch.

    Where the signature says how long sentences are, their tokens may differ in number: the model
    does not see what they are padded with. Otherwise all shapes are equal.
    """
    first = 2 if takes_sentences(call.signature) else 1
    shapes = (
        (name, array.ndim, array.shape[first:]) for name, array in sorted(call.inputs.items())
    )
    return (call.name, *shapes)


def joined(arrays: list[np.ndarray]) -> np.ndarray:
    """The rows of several arrays; what is shorter is padded with "" or 0 along axis 1."""
    if arrays[0].ndim < 2:
        return np.concatenate(arrays)
    longest = max(array.shape[1] for array in arrays)
    shape = (sum(map(len, arrays)), longest, *arrays[0].shape[2:])
    rows = np.full(shape, b"" if arrays[0].dtype == object else 0, arrays[0].dtype)
    start = 0
    for array in arrays:
        rows[start : start + len(array), : array.shape[1]] = array
        start += len(array)
    return rows


def check_widths(
    signature: meta_graph_pb2.SignatureDef,
    inputs: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Checks that each output of a batch that has an axis for tokens is as wide as the batch.

    Raises:
        ValueError: one is not: nobody can say what in it is padding.
    """
    width = _width(signature, inputs, arrays.get(LENGTHS))
    for alias, array in arrays.items():
        has_tokens = width is not None and _has_open_axis(signature.outputs[alias], 1)
        if has_tokens and array.shape[1] != width:
            raise ValueError(f"The axis 1 of {alias} is not that of the tokens.")


def padded_length(call: Call, arrays: Mapping[str, np.ndarray], rows: slice) -> int | None:
    """Tokens that a call's answer is padded to; `None` if the signature does not say."""
    lengths = arrays[LENGTHS][rows] if LENGTHS in arrays else None
    return _width(call.signature, call.inputs, lengths)


def _width(
    signature: meta_graph_pb2.SignatureDef,
    inputs: Mapping[str, np.ndarray],
    lengths: np.ndarray | None,
) -> int | None:
    if not takes_sentences(signature):
        return None
    for array in inputs.values():
        if array.ndim > 1:
            return array.shape[1]
    return int(lengths.max())


def share(array: np.ndarray, info: meta_graph_pb2.TensorInfo, length: int | None) -> np.ndarray:
    """The rows of one call, without the padding that others brought."""
    if length is None or not _has_open_axis(info, 1):
        return array
    return array[:, :length]
