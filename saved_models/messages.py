"""Sentences ─► requests in TF Serving's protocol, and responses ─► arrays without padding.

A server that batches requests pads them to the longest sentence of the batch. The signature
determines which outputs have a token axis, and `sequence_len` is the number of tokens of each
sentence. Warm-up requests, which TF Serving runs when it loads a model, spare the first clients a
wait.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from elmo_tf.text.inputs import Sentence, token_lists
from elmo_tf.text.reading import decode, encode

LENGTHS = "sequence_len"  # input and output of an exported biLM: the tokens of each sentence
# Outputs with a token axis but no feature axis: of raw text and of task models.
_TOKEN_NAMES = ("tokens", "starts", "ends", "tags")
# Padding of outputs that do not have 0 or "".
_PADDING = {
    **dict.fromkeys(("mention_start", "mention_end", "entity", "predicate"), -1),
    "roles": b"",
}
Arrays = dict[str, np.ndarray]
# Relative to the folder of a version; TF Serving's path.
WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
_BATCH_SIZES = (1, 8, 32)  # sentences per request: TensorFlow prepares kernels for each size
MOST_SENTENCES = _BATCH_SIZES[-1]  # further sentences are not used


def predict_request(
    spec: model_pb2.ModelSpec,
    sentences: Sequence[Sentence],
    outputs: Sequence[str] = (),
    signature: str | None = None,
) -> predict_pb2.PredictRequest:
    """Returns a prediction request for checked sentences; see `Client.predict`."""
    default = default_signature(sentences)
    # An empty list has no type: the signature decides.
    are_tokens = (default if sentences else signature or default) == "tokens"
    request = predict_pb2.PredictRequest(model_spec=spec, output_filter=outputs)
    request.model_spec.signature_name = signature or default
    if not are_tokens:
        request.inputs["strings"].CopyFrom(_strings(sentences, [len(sentences)]))
        return request
    # At least one token: otherwise servers cannot batch the request with others.
    num_tokens = max([1, *(len(tokens) for tokens in sentences)])
    padded = [token for row in sentences for token in row + [""] * (num_tokens - len(row))]
    lengths = tf.make_tensor_proto([len(row) for row in sentences], tf.int32)
    request.inputs["tokens"].CopyFrom(_strings(padded, [len(sentences), num_tokens]))
    request.inputs[LENGTHS].CopyFrom(lengths)
    return request


def checked_sentences(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields strings unsplit, and lists of tokens without padding; may be infinite.

    Raises:
        TypeError, ValueError: see `token_lists` and `Client.predict`.
    """
    are_strings = None
    for position, sentence in enumerate(token_lists(sentences, keep_text=True)):
        is_string = isinstance(sentence, str)
        if are_strings not in (None, is_string):
            raise TypeError(
                f"Expected either strings or lists of tokens, but sentence {position} is "
                f"{sentence!r:.60} and has another type than those before it."
            )
        are_strings = is_string
        yield sentence


def sentence_batches(
    sentences: Iterable[Sentence], batch_size: int, batch_tokens: int
) -> Iterator[list[Sentence]]:
    """Groups checked sentences into requests, in order.

    A request has at most `batch_size` sentences, and `batch_tokens` tokens with padding; a longer
    sentence is a separate request.
    """
    batch: list[Sentence] = []
    longest = 0
    for sentence in sentences:
        num_tokens = len(sentence.split() if isinstance(sentence, str | bytes) else sentence)
        if batch and max(longest, num_tokens) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], 0
        batch.append(sentence)
        longest = max(longest, num_tokens)
        if len(batch) == batch_size:
            yield batch
            batch, longest = [], 0
    if batch:
        yield batch


def default_signature(sentences: Sequence[Sentence]) -> str:
    """Returns the signature for `sentences`, which are all strings or all lists of tokens."""
    is_string = not sentences or isinstance(sentences[0], str | bytes)
    return "serving_default" if is_string else "tokens"


def _strings(values: list[str | bytes], shape: list[int]) -> tensor_pb2.TensorProto:
    return tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape(shape).as_proto(),
        string_val=[encode(value) for value in values],
    )


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


def write_warmup(version: str | os.PathLike, sentences: Sequence[Sentence]) -> None:
    """Writes requests of several sizes, with sentences and with tokens, to an exported model.

    Args:
        version: the folder of the version.
        sentences: at least one, from `checked_sentences`; they are repeated if there are too few.
    """
    texts = [
        sentence if isinstance(sentence, str | bytes) else " ".join(map(decode, sentence))
        for sentence in sentences
    ]
    path = Path(version) / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for size in _BATCH_SIZES:
            strings = list(itertools.islice(itertools.cycle(texts), size))
            for batch in (strings, [text.split() for text in strings]):
                request = predict_request(model_pb2.ModelSpec(), batch)
                log = prediction_log_pb2.PredictLog(request=request)
                record = prediction_log_pb2.PredictionLog(predict_log=log)
                writer.write(record.SerializeToString())


def read_warmup(version: str | os.PathLike) -> list[predict_pb2.PredictRequest]:
    """Returns the warm-up requests of an exported model; empty if there are none."""
    path = Path(version) / WARMUP_FILE
    if not path.is_file():
        return []
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    logs = (prediction_log_pb2.PredictionLog.FromString(record) for record in records)
    return [log.predict_log.request for log in logs if log.HasField("predict_log")]
