"""Sentences ─► requests in TF Serving's protocol."""

from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2

from elmo_tf.text.inputs import Sentence, sentence_items
from elmo_tf.text.sentences import encode


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
    request = predict_pb2.PredictRequest(
        model_spec=spec, inputs=_inputs(sentences, are_tokens), output_filter=outputs
    )
    request.model_spec.signature_name = signature or default
    return request


def checked_sentences(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields strings unchanged, and lists of tokens without padding; may be infinite.

    Raises:
        TypeError, ValueError: see `sentence_items` and `Client.predict`.
    """
    are_strings = None
    for position, sentence in enumerate(sentence_items(sentences)):
        is_string = isinstance(sentence, str | bytes)
        if are_strings not in (None, is_string):
            raise TypeError(
                f"Expected either strings or lists of tokens, but sentence {position} is "
                f"{sentence!r:.60} and has another type than those before it."
            )
        are_strings = is_string
        yield sentence if is_string else _without_padding(position, sentence)


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


def _inputs(sentences: list[Sentence], are_tokens: bool) -> dict[str, tensor_pb2.TensorProto]:
    if not are_tokens:
        return {"strings": _strings(sentences, [len(sentences)])}
    # At least one token: otherwise servers cannot batch the request with others.
    num_tokens = max([1, *(len(tokens) for tokens in sentences)])
    padded = [token for row in sentences for token in row + [""] * (num_tokens - len(row))]
    return {
        "tokens": _strings(padded, [len(sentences), num_tokens]),
        "sequence_len": tf.make_tensor_proto([len(row) for row in sentences], tf.int32),
    }


def _without_padding(position: int, tokens: Iterable[str | bytes]) -> list[str | bytes]:
    tokens = list(tokens) if isinstance(tokens, Iterable) else [tokens]
    for token in tokens:
        if not isinstance(token, str | bytes):
            raise TypeError(
                f"Expected sentence {position} to be a string or a list of tokens, but it holds "
                f"{token!r:.60}."
            )
    while tokens and not tokens[-1]:
        tokens.pop()
    if not all(tokens):
        raise ValueError(
            f"Sentence {position} has an empty token before a real one: empty tokens are padding "
            "and belong at the end."
        )
    return tokens


def _strings(values: list[str | bytes], shape: list[int]) -> tensor_pb2.TensorProto:
    return tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape(shape).as_proto(),
        string_val=[encode(value) for value in values],
    )
