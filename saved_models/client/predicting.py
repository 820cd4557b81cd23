"""Sentences ─► requests ─► answers, for a client: what is asked, in which pieces, and how read."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import grpc
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from elmo_tf.saved_models.answers import Arrays, OutputPlan, joined, output_plan, rows
from elmo_tf.saved_models.client.addresses import Transport
from elmo_tf.saved_models.client.calls import Call, Deadline, ServerError, Steps, in_turn, run
from elmo_tf.saved_models.requests import (
    Sentence,
    checked_sentences,
    default_signature,
    predict_request,
    sentence_batches,
)

_Signatures = Mapping[str, meta_graph_pb2.SignatureDef]
_IN_FLIGHT = 4  # requests of one prediction
# Errors that a prediction would meet too: there is no use in asking for one.
_NOT_REACHED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


class Predictor:
    """Asks for what one model computes. Threads may share it.

    Args:
        transport: the way to the server.
        spec: the model and its version.
        batch_size, batch_tokens: int >= 1. Sentences and tokens of a request at most.

    Raises:
        ValueError: a request may hold nothing.
    """

    def __init__(
        self, transport: Transport, spec: model_pb2.ModelSpec, batch_size: int, batch_tokens: int
    ):
        if batch_size < 1 or batch_tokens < 1:
            raise ValueError(
                f"`batch_size` and `batch_tokens` must be at least 1, but are {batch_size} and "
                f"{batch_tokens}."
            )
        self._transport = transport
        self._spec = spec
        self._limits = batch_size, batch_tokens
        self._signatures: _Signatures | None = None  # what the server says; empty: nothing

    def predicting(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str],
        signature: str | None,
        deadline: Deadline,
    ) -> Steps[Arrays]:
        """Asks for all `sentences`, in as many requests as are needed; returns one answer."""
        sentences = list(checked_sentences(sentences))
        batches = list(sentence_batches(sentences, *self._limits)) or [[]]
        signature = signature or default_signature(sentences)
        signatures = yield from self._known_signatures(deadline)
        plan = _plan(signatures, signature, outputs)
        answers = []
        with self._forgetting_signatures_if_refused():
            calls = in_turn(
                batches, lambda batch: self._ask(batch, signature, plan, deadline), _IN_FLIGHT
            )
            with contextlib.closing(calls):
                for call, _ in calls:
                    yield call
                    answers.append(call.result())
        return joined(answers, plan)

    def streaming(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str],
        signature: str | None,
        timeout: float | None,
        in_flight: int,
    ) -> Iterator[Arrays]:
        """Yields the answer for each sentence, in their order; `timeout` is of each request."""
        batches = sentence_batches(checked_sentences(sentences), *self._limits)
        first = next(batches, None)
        if first is None:
            return
        signature = signature or default_signature(first)
        signatures = run(self._known_signatures(Deadline(timeout)))
        plan = _plan(signatures, signature, outputs)
        with self._forgetting_signatures_if_refused():
            calls = in_turn(
                itertools.chain([first], batches),
                lambda batch: self._ask(batch, signature, plan, Deadline(timeout)),
                in_flight,
            )
            with contextlib.closing(calls):
                for call, batch in calls:
                    call.wait()
                    yield from rows(call.result(), len(batch), plan)

    def metadata(
        self, deadline: Deadline
    ) -> Steps[get_model_metadata_pb2.GetModelMetadataResponse]:
        """Asks for the signatures."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=["signature_def"]
        )
        call = self._transport.metadata(request, deadline)
        yield call
        return call.result()

    def status(self, deadline: Deadline) -> Steps[get_model_status_pb2.GetModelStatusResponse]:
        """Asks for the states of the versions."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=self._spec)
        call = self._transport.status(request, deadline)
        yield call
        return call.result()

    def _ask(
        self, batch: list[Sentence], signature: str, plan: OutputPlan, deadline: Deadline
    ) -> Call[Arrays]:
        request = predict_request(self._spec, batch, plan.asked, signature)
        return self._transport.predict(request, plan.infos, deadline)

    def _known_signatures(self, deadline: Deadline) -> Steps[_Signatures]:
        """Asks for the signatures, once. A server that does not tell them is asked all the same."""
        signatures = self._signatures
        if signatures is None:
            try:
                signatures = signatures_in((yield from self.metadata(deadline)))
            except DecodeError:
                signatures = {}
            except ServerError as error:
                if error.code() in _NOT_REACHED:
                    raise
                signatures = {}
            self._signatures = signatures
        return signatures

    @contextlib.contextmanager
    def _forgetting_signatures_if_refused(self) -> Iterator[None]:
        """The server may have another version of the model by now, or have had none before."""
        try:
            yield
        except ServerError:
            self._signatures = None
            raise


def signatures_in(response: get_model_metadata_pb2.GetModelMetadataResponse) -> _Signatures:
    """The signatures that a server tells, by their names."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return signatures.signature_def


def _plan(signatures: _Signatures, signature: str, outputs: str | Sequence[str]) -> OutputPlan:
    wanted = [outputs] if isinstance(outputs, str) else list(outputs)
    return output_plan(wanted, signatures[signature].outputs if signature in signatures else {})
