"""Sentences ─► requests in TF Serving's protocol, and responses ─► arrays without padding.

A server that batches requests pads them to the longest sentence of the batch. The signature
determines which outputs have a token axis, and `sequence_len` is the number of tokens of each
sentence.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2

from elmo_tf.text.inputs import Sentence
from elmo_tf.text.reading import encode

TEXT = "text"  # the signature of raw text
LENGTHS = "sequence_len"  # input and output of an exported biLM: the tokens of each sentence
# Outputs with a token axis but no feature axis: of raw text and of task models.
_TOKEN_NAMES = ("tokens", "starts", "ends", "tags")
# Padding of outputs with an axis of mentions or predicates.
_PADDING = {
    **dict.fromkeys(("mention_start", "mention_end", "entity", "predicate"), -1),
    "roles": b"",
}
Arrays = dict[str, np.ndarray]


def default_signature(sentences: Sequence[Sentence]) -> str:
    """Returns the signature for `sentences`, which are all strings or all lists of tokens."""
    is_string = not sentences or isinstance(sentences[0], str | bytes)
    return "serving_default" if is_string else "tokens"


def sentence_batches(
    sentences: Sequence[Sentence], batch_size: int, batch_tokens: int, is_raw: bool = False
) -> Iterator[Sequence[Sentence]]:
    """Groups sentences into requests, in order; no sentences are one empty request.

    A request has at most `batch_size` sentences, and `batch_tokens` tokens with padding; a longer
    sentence is a separate request. In raw text, `is_raw`, each byte may be a token.
    """
    start = longest = 0
    for end, sentence in enumerate(sentences):
        size = end + 1 - start  # with this sentence
        parts: Sequence = sentence
        if isinstance(sentence, str | bytes):
            parts = encode(sentence) if is_raw else sentence.split()
        num_tokens = len(parts)
        longest = max(longest, num_tokens)
        if size > batch_size or (size > 1 and size * longest > batch_tokens):
            yield sentences[start:end]
            start, longest = end, num_tokens
    yield sentences[start:]


def predict_request(
    spec: model_pb2.ModelSpec,
    sentences: Sequence[Sentence],
    outputs: Sequence[str] = (),
    signature: str | None = None,
) -> predict_pb2.PredictRequest:
    """Returns a prediction request for strings or lists of tokens; see `Client.predict`."""
    signature = signature or default_signature(sentences)
    request = predict_pb2.PredictRequest(model_spec=spec, output_filter=outputs)
    request.model_spec.signature_name = signature
    # An empty list has no type: the signature decides.
    if (default_signature(sentences) if sentences else signature) != "tokens":
        request.inputs["strings"].CopyFrom(_strings(sentences, [len(sentences)]))
        return request
    # At least one token: otherwise servers cannot batch the request with others.
    num_tokens = max([1, *(len(tokens) for tokens in sentences)])
    padded = [token for row in sentences for token in [*row, *[""] * (num_tokens - len(row))]]
    lengths = tf.make_tensor_proto([len(row) for row in sentences], tf.int32)
    request.inputs["tokens"].CopyFrom(_strings(padded, [len(sentences), num_tokens]))
    request.inputs[LENGTHS].CopyFrom(lengths)
    return request


def outputs_of_tokens(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> set[str]:
    """Returns the outputs of a signature whose second axis counts tokens.

    These are vectors, and the outputs in `_TOKEN_NAMES`.
    """
    shapes = {name: tf.TensorShape(info.tensor_shape) for name, info in infos.items()}
    return {
        name
        for name, shape in shapes.items()
        if (shape.rank == 3 and shape[1] is None and shape[2] is not None)
        or (shape.rank == 2 and shape[1] is None and name in _TOKEN_NAMES)
    }


def joined(responses: Sequence[Arrays], names: Sequence[str], of_tokens: set[str]) -> Arrays:
    """Joins the responses to the requests of one call.

    Args:
        responses: the outputs of each request.
        names: of the outputs to return; empty means all.
        of_tokens: the outputs with a token axis, which are padded to the longest sentence.
    """
    lengths = [response.get(LENGTHS, np.zeros(())) for response in responses]
    longest = None
    if all(array.ndim == 1 and np.issubdtype(array.dtype, np.integer) for array in lengths):
        longest = max(array.max(initial=0) for array in lengths)
    arrays = {}
    for name in names or sorted(responses[0]):
        parts = [response[name] for response in responses]
        padding = _PADDING.get(name)
        if name in of_tokens:
            parts = [part[:, :longest] for part in parts]
        elif padding is not None and parts[0].ndim == 2:
            parts = [part[:, : _num_used(part, padding)] for part in parts]
        arrays[name] = concatenate_padded(parts, padding or 0)
    return arrays


def concatenate_padded(arrays: Sequence[np.ndarray], padding: int = 0) -> np.ndarray:
    """Concatenates arrays along axis 0; shorter ones are padded along axis 1, strings with `""`."""
    if len(arrays) == 1:
        return np.asarray(arrays[0], order="C")
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


def _num_used(array: np.ndarray, padding: int | bytes) -> int:
    """Number of columns up to the last one with another value than padding."""
    return np.max(np.nonzero(array != padding)[1], initial=-1) + 1


def _strings(values: Sequence[str | bytes], shape: list[int]) -> tensor_pb2.TensorProto:
    return tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape(shape).as_proto(),
        string_val=[encode(value) for value in values],
    )
