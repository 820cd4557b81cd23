"""The client of any TF Serving server: sentences in, arrays out."""

import collections
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from elmo_tf.saved_models.messages import (
    LENGTHS,
    TEXT,
    default_signature,
    joined,
    outputs_of_tokens,
    predict_request,
    sentence_batches,
)
from elmo_tf.text.inputs import Sentence, token_lists

_IN_FLIGHT = 4  # requests at the same time
_MAX_RETRIES = 4  # gRPC makes at most five attempts
_ADDRESS = re.compile(r"(?:(grpcs?)://)?([^\s/]+:\d{1,5})", re.IGNORECASE)


class ServerError(grpc.RpcError):
    """The server is unreachable, has rejected the request, failed, or exceeded the timeout."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(code, details)  # from which `pickle` makes it again
        self._code = code
        self._details = details

    def __str__(self) -> str:
        return f"{self._code.name}: {self._details}"

    def code(self) -> grpc.StatusCode:
        """Returns the status code, such as `grpc.StatusCode.NOT_FOUND` for an unknown model."""
        return self._code

    def details(self) -> str:
        """Returns the error message of the server."""
        return self._details


class Client:
    """Requests vectors of sentences from a model server. Thread-safe.

    Args:
        address: `"host:port"` or `"grpc://host:port"` of the server's gRPC, `"grpcs://host:port"`
            with TLS; or a `grpc.Channel`, for other targets and credentials, which the client does
            not close.
        model: name of the model on the server.
        timeout: seconds for a call, including all its requests and retries; `None` means no limit.
        batch_size: int >= 1. Maximum number of sentences per request; longer lists are split.
        batch_tokens: int >= 1. Maximum number of tokens per request, with padding.
        retries: 0 … 4, while the server is unavailable, with exponential backoff. A channel keeps
            its own retries.

    Raises:
        ValueError: `address` is malformed, or another argument is out of range.

    Example:
        >>> with elmo_tf.saved_models.Client("localhost:8500", model="elmo") as client:
        ...     vectors = client.predict(["The bank of the river", "I like it"])["elmo"]
        >>> vectors.shape
        (2, 5, 384)
    """

    def __init__(
        self,
        address: str | grpc.Channel,
        model: str = "elmo",
        timeout: float | None = 60.0,
        *,
        batch_size: int = 64,
        batch_tokens: int = 4096,
        retries: int = _MAX_RETRIES,
    ):
        if min(batch_size, batch_tokens) < 1:
            raise ValueError(
                "`batch_size` and `batch_tokens` must be at least 1. "
                f"Received: {batch_size} and {batch_tokens}"
            )
        self.address = address
        self.timeout = timeout
        self._spec = model_pb2.ModelSpec(name=model)
        self._is_own_channel = isinstance(address, str)
        self._channel = _open_channel(address, retries) if self._is_own_channel else address
        self._service = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._limits = batch_size, batch_tokens
        # Empty if the server returns none.
        self._signatures: Mapping[str, meta_graph_pb2.SignatureDef] | None = None

    def predict(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of the model for `sentences`.

        Args:
            sentences: strings, which the model splits at whitespace, or lists of tokens; see
                `token_lists`. Lone surrogates are encoded as the bytes that they stand for
                (`surrogateescape`).
            outputs: names of the outputs; empty means all. Only these are transferred.
            signature: name of the signature. Defaults to `"serving_default"` for strings and
                `"tokens"` for lists of tokens.

        Returns:
            One array for each of `outputs`, such as float (batch, token, feature) for `"elmo"`,
            padded to the longest sentence.

        Raises:
            TypeError: `sentences` is a single string or a table, or contains other types.
            ValueError: an empty token precedes a real one, an array (batch, token) holds sentences,
                or the client is closed.
            ServerError: the server is unreachable, or has rejected a request.
        """
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        sentences = list(token_lists(sentences, keep_text=True))
        if not all(isinstance(sentence, str) for sentence in sentences):
            sentences = [text.split() if isinstance(text, str) else text for text in sentences]
        signature = signature or default_signature(sentences)
        wanted = [outputs] if isinstance(outputs, str) else list(dict.fromkeys(outputs))
        known = self._known_outputs(signature, deadline)
        of_tokens = outputs_of_tokens(known)
        needs_lengths = LENGTHS in known and not of_tokens.isdisjoint(wanted)
        requested = list(dict.fromkeys([*wanted, LENGTHS] if needs_lengths else wanted))
        requests = [
            predict_request(self._spec, batch, requested, signature)
            for batch in sentence_batches(sentences, *self._limits, is_raw=signature == TEXT)
        ]
        return joined(self._answers(requests, deadline), wanted, of_tokens)

    def close(self) -> None:
        """Closes the connection, unless the client was given a channel."""
        if self._is_own_channel:
            self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _known_outputs(
        self, signature: str, deadline: float | None
    ) -> Mapping[str, meta_graph_pb2.TensorInfo]:
        """Fetches the signatures once; empty if the server returns none, as some do."""
        known = self._signatures  # another thread may reset it
        if known is None:
            request = get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=self._spec, metadata_field=["signature_def"]
            )
            signatures = get_model_metadata_pb2.SignatureDefMap()
            try:
                response = self._result(
                    self._start(self._service.GetModelMetadata, request, deadline)
                )
                response.metadata["signature_def"].Unpack(signatures)
            except ServerError as error:
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                    raise
            self._signatures = known = signatures.signature_def
        return known[signature].outputs if signature in known else {}

    def _answers(
        self, requests: Sequence[Message], deadline: float | None
    ) -> list[dict[str, np.ndarray]]:
        """Sends the requests, several at the same time; an error cancels the others."""
        pending: collections.deque[grpc.Future] = collections.deque()
        responses: list[dict[str, np.ndarray]] = []
        try:
            for request in requests:
                if len(pending) == _IN_FLIGHT:
                    responses.append(_arrays(self._result(pending.popleft())))
                pending.append(self._start(self._service.Predict, request, deadline))
            responses += (_arrays(self._result(call)) for call in pending)
        except ServerError:
            self._signatures = None  # the server may have switched to a version with others
            raise
        finally:
            for call in pending:
                call.cancel()
        return responses

    def _start(
        self, method: grpc.UnaryUnaryMultiCallable, request: Message, deadline: float | None
    ) -> grpc.Future:
        seconds = None if deadline is None else max(1e-6, deadline - time.monotonic())
        return method.future(request, timeout=seconds)

    def _result(self, call: grpc.Future) -> Any:
        try:
            return call.result()
        except grpc.RpcError as error:
            raise _explained(error, self.address, self.timeout) from error


def channel_options(retries: int = _MAX_RETRIES) -> list[tuple[str, Any]]:
    """Returns the options of a client's gRPC channel: large messages, and retries.

    Args:
        retries: 0 … 4, while the server is unavailable, with exponential backoff.
    """
    if not 0 <= retries <= _MAX_RETRIES:
        raise ValueError(f"`retries` must be 0 … {_MAX_RETRIES}, but is {retries}.")
    policy = {
        "maxAttempts": retries + 1,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,  # gRPC adds jitter
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # Reconnect soon after a server restart, before the retries are used up.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.per_rpc_retry_buffer_size", 256 * 1024 * 1024),  # larger requests are not retried
        ("grpc.enable_retries", int(retries > 0)),
    ]
    if retries:
        config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
        options.append(("grpc.service_config", config))
    return options


def _open_channel(address: str, retries: int) -> grpc.Channel:
    options = channel_options(retries)
    if (match := _ADDRESS.fullmatch(address)) is None:
        raise ValueError(
            "The address must be host:port of the server's gRPC, such as localhost:8500, with "
            f"grpcs:// before it for TLS; or a gRPC channel. Received: {address!r}. For REST, see "
            "docs/guides/client.md."
        )
    scheme, target = match.groups()
    if (scheme or "").lower() == "grpcs":
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(target, options)


def _explained(error: grpc.RpcError, address: Any, timeout: float | None) -> ServerError:
    """Returns an error whose message names the likely remedy."""
    code, details = error.code(), error.details()
    of_connection = ("connect", "http", "socket", "name resol")  # not of an overloaded server
    if code == grpc.StatusCode.UNAVAILABLE and any(w in details.lower() for w in of_connection):
        details = (
            f"Cannot reach a model server at {address}: {details}. Is it running, and is this its "
            "gRPC port?"
        )
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED and timeout is not None:
        details = (
            f"{address} did not answer within {timeout} s. Send fewer sentences per call, or "
            "increase the timeout."
        )
    return ServerError(code, details)


def _arrays(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}
