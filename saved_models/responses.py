"""Reads the responses of a model server: arrays without the padding that batching adds.

A server that batches requests pads them to the longest sentence of the batch. The signature
determines which outputs have a token axis, and `sequence_len` is the number of tokens of each
sentence.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

LENGTHS = "sequence_len"  # input and output of an exported biLM: the tokens of each sentence
# Outputs with a token axis but no feature axis: of raw text and of task models.
_TOKEN_NAMES = ("tokens", "starts", "ends", "tags")
# Padding of outputs that do not have 0 or "".
_PADDING = dict.fromkeys(("mention_start", "mention_end", "entity"), -1)
Arrays = dict[str, np.ndarray]


class OutputPlan:
    """Which outputs are requested, and how the responses are read.

    Args:
        wanted: names of the outputs that the caller wants; empty means all.
        infos: the outputs of the signature; empty if they are unknown.

    Attributes:
        requested: `wanted`, and `sequence_len` if it is needed.
        with_tokens: the outputs with a token axis.
    """

    def __init__(self, wanted: Sequence[str], infos: Mapping[str, meta_graph_pb2.TensorInfo]):
        self.infos = infos
        self.requested = self._wanted = list(dict.fromkeys(wanted))
        self.with_tokens = {name for name, info in infos.items() if _has_token_axis(name, info)}
        if LENGTHS in infos and not self.with_tokens.isdisjoint(wanted):
            self.requested = list(dict.fromkeys([*wanted, LENGTHS]))

    def join(self, responses: Sequence[Arrays]) -> Arrays:
        """Joins the responses to several requests, padded to the longest sentence.

        Raises:
            ValueError: there are several responses, and an output has no sentence axis.
        """
        lengths = [_lengths(response) for response in responses]
        longest = None
        if all(array is not None for array in lengths):
            longest = max(array.max(initial=0) for array in lengths)
        arrays = {}
        for name in self._wanted or sorted(responses[0]):
            parts = [response[name] for response in responses]
            if name in self.with_tokens:
                parts = [part[:, :longest] for part in parts]
            if len(parts) > 1:
                for part in parts:
                    _check_sentences(name, part)
                arrays[name] = concatenate_padded(parts, _PADDING.get(name, 0))
            else:
                arrays[name] = np.asarray(parts[0], order="C")
        return arrays

    def rows(self, response: Arrays, num_sentences: int) -> Iterator[Arrays]:
        """Yields the outputs of each sentence of one response, without padding.

        Raises:
            ValueError: an output has not one row per sentence.
        """
        lengths = _lengths(response)
        names = self._wanted or sorted(response)
        for name in names:
            _check_sentences(name, response[name], num_sentences)
        for index in range(num_sentences):
            row = {}
            for name in names:
                array = response[name][index, ...]
                if name in self.with_tokens and lengths is not None:
                    array = array[: lengths[index]]
                if name in _PADDING:
                    array = array[array != _PADDING[name]]
                row[name] = array.copy()  # a view would keep the complete response in memory
            yield row


def concatenate_padded(arrays: Sequence[np.ndarray], padding: int = 0) -> np.ndarray:
    """Concatenates arrays along axis 0; shorter ones are padded along axis 1, strings with `""`."""
    if len({array.shape[1:] for array in arrays}) == 1:
        return np.concatenate(arrays)
    dtype = arrays[0].dtype
    shape = (sum(map(len, arrays)), max(array.shape[1] for array in arrays), *arrays[0].shape[2:])
    result = np.full(shape, b"" if dtype.kind == "O" else padding, dtype)
    start = 0
    for array in arrays:
        result[start : start + len(array), : array.shape[1]] = array
        start += len(array)
    return result


def _has_token_axis(name: str, info: meta_graph_pb2.TensorInfo) -> bool:
    """Whether axis 1 counts tokens: of vectors, and of the outputs in `_TOKEN_NAMES`."""
    shape = tf.TensorShape(info.tensor_shape)
    if shape.rank is None or shape.rank < 2 or shape[1] is not None:
        return False
    return name in _TOKEN_NAMES or (shape.rank == 3 and shape[2] is not None)


def _lengths(response: Arrays) -> np.ndarray | None:
    lengths = response.get(LENGTHS)
    if lengths is None or lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        return None
    return lengths


def _check_sentences(name: str, array: np.ndarray, num_sentences: int | None = None) -> None:
    if not array.ndim or num_sentences not in (None, len(array)):
        raise ValueError(
            f"The output {name!r} has not one row for each sentence, but the shape {array.shape}. "
            "Use `predict` for it, with no more sentences than fit into one request."
        )
