"""Answers of a model server ─► arrays without the padding that other users' sentences caused.

A server that batches requests pads all of them to the longest sentence among them. Which outputs
have an axis of tokens is told by the signature, the tokens of each sentence by `sequence_len`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

LENGTHS = "sequence_len"  # by this name an exported biLM takes and tells the tokens of sentences
# Outputs of the signature of raw text, and of task models.
_TOKEN_NAMES = ("tokens", "starts", "ends", "tags")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class OutputPlan:
    """What is asked for, and how the answers are read.

    wanted: names of the outputs that the caller wants; none means all.
    asked: what is asked for: `wanted`, and `sequence_len` where it is needed.
    with_tokens: the outputs of which axis 1 counts tokens, as far as it is known.
    infos: all outputs of the signature; empty if they are not known.
    """

    wanted: list[str]
    asked: list[str]
    with_tokens: frozenset[str]
    infos: Mapping[str, meta_graph_pb2.TensorInfo]


def output_plan(
    wanted: Sequence[str], infos: Mapping[str, meta_graph_pb2.TensorInfo]
) -> OutputPlan:
    """Decides what to ask for.

    Args:
        wanted: names of outputs; none means all.
        infos: all outputs of the signature; empty if they are not known.
    """
    wanted = list(dict.fromkeys(wanted))
    with_tokens = frozenset(name for name, info in infos.items() if _has_token_axis(name, info))
    asked = wanted
    if LENGTHS in infos and not with_tokens.isdisjoint(wanted):
        asked = list(dict.fromkeys([*wanted, LENGTHS]))
    return OutputPlan(wanted, asked, with_tokens, infos)


def joined(answers: Sequence[Arrays], plan: OutputPlan) -> Arrays:
    """The answers of several requests as one, padded to the longest sentence of them all.

    Raises:
        ValueError: an output has no axis of sentences, and there are several answers.
    """
    lengths = [_lengths(answer) for answer in answers]
    longest = None
    if not any(each is None for each in lengths):
        longest = max((each.max(initial=0) for each in lengths), default=0)
    names = plan.wanted or sorted(answers[0])
    whole = {}
    for name in names:
        parts = [answer[name] for answer in answers]
        if len(parts) > 1:
            for part in parts:
                _check_sentences(name, part)
        if name in plan.with_tokens and longest is not None:
            parts = [part[:, :longest] for part in parts]
        whole[name] = _stacked(parts)
    return whole


def rows(answer: Arrays, num_sentences: int, plan: OutputPlan) -> Iterator[Arrays]:
    """Yields what one request's answer says of each sentence, its own tokens alone.

    Raises:
        ValueError: an output has not one row for each sentence.
    """
    lengths = _lengths(answer)
    names = plan.wanted or sorted(answer)
    for name in names:
        _check_sentences(name, answer[name], num_sentences)
    for index in range(num_sentences):
        row = {}
        for name in names:
            array = answer[name][index, ...]
            if name in plan.with_tokens and lengths is not None:
                array = array[: lengths[index]]
            row[name] = array.copy()  # Not a view, which would keep the whole answer in memory.
        yield row


def _has_token_axis(name: str, info: meta_graph_pb2.TensorInfo) -> bool:
    """Whether axis 1 counts tokens: of vectors, and of what the signature of raw text tells."""
    shape = tf.TensorShape(info.tensor_shape)
    if shape.rank is None or shape.rank < 2 or shape[1] is not None:
        return False
    return name in _TOKEN_NAMES or (shape.rank == 3 and shape[2] is not None)


def _lengths(answer: Arrays) -> np.ndarray | None:
    lengths = answer.get(LENGTHS)
    if lengths is None or lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        return None
    return lengths


def _check_sentences(name: str, array: np.ndarray, num_sentences: int | None = None) -> None:
    if array.ndim and num_sentences in (None, len(array)):
        return
    raise ValueError(
        f"The output {name!r} has not one row for each sentence, but the shape {array.shape}: ask "
        f"for it by `predict`, with no more sentences than go into one request."
    )


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0]) if parts[0].ndim else parts[0]
    if len({part.shape[1:] for part in parts}) == 1:
        return np.concatenate(parts)
    num_sentences, num_tokens = sum(map(len, parts)), max(part.shape[1] for part in parts)
    dtype = parts[0].dtype
    padding = b"" if dtype.kind == "O" else 0
    whole = np.full((num_sentences, num_tokens, *parts[0].shape[2:]), padding, dtype)
    start = 0
    for part in parts:
        whole[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return whole
