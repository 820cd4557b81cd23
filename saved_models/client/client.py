"""The client of any TF Serving server: sentences in, arrays out."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from elmo_tf.saved_models.client.calls import (
    MAX_RETRIES,
    Calls,
    ServerError,
    explained,
    open_channel,
)
from elmo_tf.saved_models.messages import (
    Arrays,
    OutputPlan,
    checked_sentences,
    default_signature,
    predict_request,
    sentence_batches,
)
from elmo_tf.text.inputs import Sentence

_IN_FLIGHT = 4  # requests at the same time
# Errors that predictions would raise, too.
_UNREACHABLE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


class Client:
    """Requests vectors of sentences from a model server. Thread-safe.

    Args:
        address: `"host:port"` or `"grpc://host:port"` of the server's gRPC, `"grpcs://host:port"`
            with TLS.
        model: name of the model on the server.
        timeout: seconds for a call, including all its requests and retries; `None` means no limit.
        version: of the model; `None` means the server's default.
        batch_size: int >= 1. Maximum number of sentences per request; longer lists are split.
        batch_tokens: int >= 1. Maximum number of tokens per request, with padding.
        retries: 0 … 4, while the server is unavailable, with exponential backoff.
        root_certificates: PEM file of certificate authorities; `None` means the system's.
        client_key, client_certificate: PEM files for servers that authenticate their clients.
        headers: sent with every request, such as `{"authorization": "Bearer …"}`.

    Raises:
        ValueError: `address` is malformed, or another argument is out of range.
        OSError: a certificate file cannot be read.
    """

    def __init__(
        self,
        address: str,
        model: str = "elmo",
        timeout: float | None = 60.0,
        version: int | None = None,
        *,
        batch_size: int = 64,
        batch_tokens: int = 4096,
        retries: int = MAX_RETRIES,
        root_certificates: str | os.PathLike | None = None,
        client_key: str | os.PathLike | None = None,
        client_certificate: str | os.PathLike | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
        if batch_tokens < 1:
            raise ValueError(f"`batch_tokens` must be at least 1. Received: {batch_tokens}")
        self.address = address
        self.timeout = timeout
        self._spec = model_pb2.ModelSpec(name=model)
        if version is not None:
            self._spec.version.value = version
        pem_files = root_certificates, client_key, client_certificate
        self._channel = open_channel(address, retries, pem_files)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)
        self._headers = [(name.lower(), value) for name, value in (headers or {}).items()]
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
            sentences: strings, which the model splits at whitespace, or lists of tokens. Lone
                surrogates are encoded as the bytes that they stand for (`surrogateescape`).
            outputs: names of the outputs; empty means all. Only these are transferred.
            signature: name of the signature. Defaults to `"serving_default"` for strings and
                `"tokens"` for lists of tokens.

        Returns:
            One array for each of `outputs`, such as float (batch, token, feature) for `"elmo"`,
            padded to the longest sentence.

        Raises:
            TypeError: `sentences` is a single string or a table, mixes strings and lists of tokens,
                or contains other types.
            ValueError: an empty token precedes a real one, an array (batch, token) holds sentences,
                or the client is closed.
            ServerError: the server is unreachable, or has rejected a request.
        """
        return self._predict(sentences, outputs, signature, Calls())

    async def predict_async(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
    ) -> dict[str, np.ndarray]:
        """Like `predict`, for asyncio. Cancelling it cancels its requests."""
        calls = Calls()
        try:
            return await asyncio.to_thread(self._predict, sentences, outputs, signature, calls)
        except asyncio.CancelledError:
            calls.cancel()
            raise

    def _predict(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str],
        signature: str | None,
        calls: Calls,
    ) -> Arrays:
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        sentences = list(checked_sentences(sentences))
        batches = list(sentence_batches(sentences, *self._limits)) or [[]]
        signature = signature or default_signature(sentences)
        plan = self._plan(signature, outputs, deadline)
        sent = self._responses(calls, batches, _IN_FLIGHT, signature, plan, deadline)
        return plan.join([response for response, _ in sent])

    def stream(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
        in_flight: int = _IN_FLIGHT,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the outputs of each sentence, in order.

        For inputs that do not fit into memory: only the requests in flight are kept. Closing the
        iterator cancels them. The timeout applies to each request.

        Args:
            sentences: see `predict`; may be infinite. They are consumed as requests are sent.
            outputs, signature: see `predict`.
            in_flight: int >= 1. Maximum number of requests in flight.

        Yields:
            One dict per sentence, without padding, such as float (token, feature) for `"elmo"`
            and (feature,) for `"default"`.

        Raises:
            TypeError, ValueError, ServerError: see `predict`; raised at the sentence concerned.
        """
        if in_flight < 1:
            raise ValueError(f"`in_flight` must be at least 1. Received: {in_flight}")

        def rows() -> Iterator[Arrays]:
            batches = sentence_batches(checked_sentences(sentences), *self._limits)
            first = next(batches, None)
            if first is None:
                return
            name = signature or default_signature(first)
            plan = self._plan(name, outputs)
            batches = itertools.chain([first], batches)
            sent = self._responses(Calls(), batches, in_flight, name, plan)
            with contextlib.closing(sent):
                for response, batch in sent:
                    yield from plan.rows(response, len(batch))

        return rows()

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{1: "AVAILABLE"}`.

        Raises:
            ServerError: the server is unreachable, or has rejected the request.
        """
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=self._spec)
        response = self._result(self._start(self._models.GetModelStatus, request))
        name_of = get_model_status_pb2.ModelVersionStatus.State.Name
        states = response.model_version_status
        return {version.version: name_of(version.state) for version in states}

    def metadata(self) -> dict[str, Any]:
        """Returns the version and its signatures.

        Returns:
            `version`, an int, and `signatures`, a dict from their names to `inputs` and `outputs`.
            Each of these is a dict from names to `dtype` ("string") and `shape` ([None], or None
            if the rank is unknown).

        Raises:
            ServerError: the server is unreachable, or has rejected the request.
        """
        version, known = self._metadata()
        signatures = {
            name: {"inputs": _described(signature.inputs), "outputs": _described(signature.outputs)}
            for name, signature in sorted(known.items())
            if signature.method_name  # signatures that only initialize the model have none
        }
        return {"version": version, "signatures": signatures}

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(
        self, method: grpc.UnaryUnaryMultiCallable, request: Message, deadline: float | None = None
    ) -> grpc.Future:
        """Sends a request. `deadline`, in `time.monotonic()`, defaults to the client's timeout."""
        seconds = self.timeout if deadline is None else max(1e-6, deadline - time.monotonic())
        return method.future(request, timeout=seconds, metadata=self._headers)

    def _result(self, call: grpc.Future) -> Any:
        try:
            return call.result()
        except grpc.RpcError as error:
            raise explained(error, self.address, self.timeout) from error

    def _responses(
        self,
        calls: Calls,
        batches: Iterable[list[Sentence]],
        in_flight: int,
        signature: str,
        plan: OutputPlan,
        deadline: float | None = None,
    ) -> Iterator[tuple[Arrays, list[Sentence]]]:
        """Sends a request for each batch; yields the responses in order, with their batches.

        Without a common `deadline`, each request has its own. Closing the iterator cancels the
        unfinished calls.
        """

        def start(batch: list[Sentence]) -> grpc.Future:
            request = predict_request(self._spec, batch, plan.requested, signature)
            return self._start(self._predictions.Predict, request, deadline)

        try:
            for call, batch in calls.in_order(batches, start, in_flight):
                outputs = self._result(call).outputs
                yield {name: tf.make_ndarray(outputs[name]) for name in outputs}, batch
        except ServerError:
            self._signatures = None  # the server may have switched to a version with others
            raise
        finally:
            calls.cancel()

    def _metadata(
        self, deadline: float | None = None
    ) -> tuple[int, Mapping[str, meta_graph_pb2.SignatureDef]]:
        """Returns the version and its signatures."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=["signature_def"]
        )
        response = self._result(self._start(self._predictions.GetModelMetadata, request, deadline))
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return response.model_spec.version.value, signatures.signature_def

    def _plan(
        self, signature: str, outputs: str | Sequence[str], deadline: float | None = None
    ) -> OutputPlan:
        """Fetches the signatures once; they are optional, since some servers return none."""
        known = self._signatures  # another thread may reset it
        if known is None:
            try:
                _, known = self._metadata(deadline)
            except ServerError as error:
                if error.code() in _UNREACHABLE:
                    raise
                known = {}
            self._signatures = known
        wanted = [outputs] if isinstance(outputs, str) else list(outputs)
        return OutputPlan(wanted, known[signature].outputs if signature in known else {})


def _described(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, dict[str, Any]]:
    shapes = {name: tf.TensorShape(infos[name].tensor_shape) for name in sorted(infos)}
    return {
        name: {
            "dtype": tf.as_dtype(infos[name].dtype).name,
            "shape": None if shape.rank is None else shape.as_list(),
        }
        for name, shape in shapes.items()
    }
