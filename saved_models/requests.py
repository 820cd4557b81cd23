"""Sentences ─► what a model server is asked, in the protocol of TF Serving."""

from collections.abc import Iterable, Sequence

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2

from elmo_tf.text.sentences import encode

Sentence = str | bytes | Sequence[str | bytes]  # to be split at white space, or its tokens


def predict_request(
    spec: model_pb2.ModelSpec,
    sentences: Iterable[Sentence],
    outputs: Sequence[str] = (),
    signature: str | None = None,
) -> predict_pb2.PredictRequest:
    """A request for what the model computes for sentences.

    Args:
        spec: the model and its version.
        sentences: strings, which the model splits at white space, or lists of tokens.
        outputs: names of the wanted outputs. None named means all.
        signature: the signature to ask. Defaults to `"serving_default"` for strings and `"tokens"`
            for lists of tokens.

    Raises:
        TypeError: `sentences` is one string, mixes strings with lists of tokens, or holds something
            else.
        ValueError: an empty token stands before a real one.
    """
    default_signature, inputs = _inputs(sentences)
    request = predict_pb2.PredictRequest(model_spec=spec, inputs=inputs, output_filter=outputs)
    request.model_spec.signature_name = signature or default_signature
    return request


def _inputs(sentences: Iterable[Sentence]) -> tuple[str, dict[str, tensor_pb2.TensorProto]]:
    """Returns the signature for `sentences`, and its inputs."""
    if isinstance(sentences, str | bytes):
        raise TypeError(f"Expected a list of sentences, but got one string: {sentences!r:.60}.")
    sentences = list(sentences)
    num_strings = sum(isinstance(sentence, str | bytes) for sentence in sentences)
    if num_strings == len(sentences):
        return "serving_default", {"strings": _strings(sentences, [len(sentences)])}
    if num_strings:
        raise TypeError(
            f"Expected either strings or lists of tokens, but {num_strings} of "
            f"{len(sentences)} sentences are strings."
        )
    rows = [_without_padding(position, tokens) for position, tokens in enumerate(sentences)]
    num_tokens = max(len(row) for row in rows)
    padded = [token for row in rows for token in row + [""] * (num_tokens - len(row))]
    return "tokens", {
        "tokens": _strings(padded, [len(rows), num_tokens]),
        "sequence_len": tf.make_tensor_proto([len(row) for row in rows], tf.int32),
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
            f"Sentence {position} has an empty token before a real one: an empty token is padding "
            f"and belongs at the end."
        )
    return tokens


def _strings(values: list[str | bytes], shape: list[int]) -> tensor_pb2.TensorProto:
    return tensor_pb2.TensorProto(
        dtype=tf.string.as_datatype_enum,
        tensor_shape=tf.TensorShape(shape).as_proto(),
        string_val=[encode(value) for value in values],
    )
