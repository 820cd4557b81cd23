"""Sentences ─► what a model server is asked, in the protocol of TF Serving."""

from collections.abc import Iterable, Iterator, Sequence

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
    sentences = list(checked_sentences(sentences))
    default = default_signature(sentences)
    # No sentences are of no kind: the signature says which they would be.
    are_tokens = (default if sentences else signature or default) == "tokens"
    request = predict_pb2.PredictRequest(
        model_spec=spec, inputs=_inputs(sentences, are_tokens), output_filter=outputs
    )
    request.model_spec.signature_name = signature or default
    return request


def checked_sentences(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields sentences one by one: strings as they are, tokens in lists without padding.

    Args:
        sentences: any iterable, even an endless one.

    Raises:
        TypeError: `sentences` is one string, mixes strings with lists of tokens, or holds something
            else.
        ValueError: an empty token stands before a real one.
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(f"Expected a list of sentences, but got one string: {sentences!r:.60}.")
    are_strings = None
    for position, sentence in enumerate(sentences):
        is_string = isinstance(sentence, str | bytes)
        if are_strings not in (None, is_string):
            raise TypeError(
                f"Expected either strings or lists of tokens, but sentence {position} is "
                f"{sentence!r:.60} and those before it are not of its kind."
            )
        are_strings = is_string
        yield sentence if is_string else _without_padding(position, sentence)


def sentence_batches(
    sentences: Iterable[Sentence], batch_size: int, batch_tokens: int
) -> Iterator[list[Sentence]]:
    """Cuts sentences into requests, in their order.

    Args:
        sentences: as `checked_sentences` gives them.
        batch_size: int >= 1. Sentences of a request at most.
        batch_tokens: int >= 1. Tokens of a request at most, its padding included. A sentence with
            more goes alone.
    """
    batch: list[Sentence] = []
    longest = 0
    for sentence in sentences:
        is_string = isinstance(sentence, str | bytes)
        num_tokens = len(sentence.split() if is_string else sentence)
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
    """Returns the signature that takes `sentences`, which are all of one kind."""
    is_string = not sentences or isinstance(sentences[0], str | bytes)
    return "serving_default" if is_string else "tokens"


def _inputs(sentences: list[Sentence], are_tokens: bool) -> dict[str, tensor_pb2.TensorProto]:
    if not are_tokens:
        return {"strings": _strings(sentences, [len(sentences)])}
    # At least one: a server cannot put sentences without any in a batch with others.
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
