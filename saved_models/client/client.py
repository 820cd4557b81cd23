"""The arrow back from a model server: sentences in, arrays out, from any TF Serving server."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_status_pb2, model_pb2

from elmo_tf.saved_models.client.addresses import open_transport
from elmo_tf.saved_models.client.calls import Deadline, ServerError, run, run_async
from elmo_tf.saved_models.client.options import MAX_RETRIES, TLS, TransportOptions
from elmo_tf.saved_models.client.predicting import Predictor, signatures_in
from elmo_tf.saved_models.requests import Sentence

__all__ = ["Client", "ServerError"]


class Client:
    """Asks a model server for the vectors of sentences. Threads may share it.

    Args:
        address: `"host:port"` or `"grpc://host:port"` of the server's gRPC, `"grpcs://host:port"`
            with TLS; `"http://host:port"` or `"https://host:port"` of its REST interface.
        model: what the server calls the model.
        timeout: seconds that a call may take, with all its requests and retries; `None` means no
            limit.
        version: of the model; `None` means the one that the server prefers.
        batch_size: int >= 1. Sentences of a request at most; more are split.
        batch_tokens: int >= 1. Tokens of a request at most, its padding included.
        retries: 0 … 4, while the server is not available, with growing pauses.
        root_certificates: a file in PEM that vouches for the server; `None` means the usual ones.
        client_key, client_certificate: files in PEM, for a server that wants to know who asks.
        headers: sent with every request, such as `{"authorization": "Bearer …"}`.

    Raises:
        ValueError: `address` is none of these, or another argument is out of range.
        OSError: a certificate cannot be read.
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
        self.address = address
        self.timeout = timeout
        self._spec = model_pb2.ModelSpec(name=model)
        if version is not None:
            self._spec.version.value = version
        tls = TLS(root_certificates, client_key, client_certificate)
        self._transport = open_transport(address, TransportOptions(retries, tls, headers or {}))
        self._predictor = Predictor(self._transport, self._spec, batch_size, batch_tokens)
        self._closed = False

    def predict(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns what the model computes for `sentences`.

        Args:
            sentences: strings, which the model splits at white space, or lists of tokens. Lone
                surrogates stand for the bytes that they came from (`surrogateescape`).
            outputs: names of the wanted outputs; over gRPC only these travel. None named means all.
            signature: the signature to ask. Defaults to `"serving_default"` for strings and
                `"tokens"` for lists of tokens.

        Returns:
            One array for each of `outputs`, such as float (batch, token, feature) for `"elmo"`,
            padded to the longest sentence.

        Raises:
            TypeError: `sentences` is one string, mixes strings with lists of tokens, or holds
                something else.
            ValueError: an empty token stands before a real one, or the client is closed.
            ServerError: there was no answer, or a refusal.
        """
        deadline = Deadline(self.timeout)
        return run(self._asking().predicting(sentences, outputs, signature, deadline))

    async def predict_async(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
    ) -> dict[str, np.ndarray]:
        """As `predict`, without blocking the event loop. Cancelled, it cancels its requests."""
        deadline = Deadline(self.timeout)
        return await run_async(self._asking().predicting(sentences, outputs, signature, deadline))

    def stream(
        self,
        sentences: Iterable[Sentence],
        outputs: str | Sequence[str] = ("elmo",),
        signature: str | None = None,
        in_flight: int = 4,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields what the model computes for each sentence, in their order.

        Several requests are under way at once, and no more than these are kept in memory: good for
        more sentences than fit there. Closed before its end, it cancels what is under way. The
        time limit is for each request.

        Args:
            sentences: as of `predict`; may be endless. They are taken as requests are sent.
            outputs, signature: as of `predict`.
            in_flight: int >= 1. Requests under way at most.

        Yields:
            One dict for each sentence, without padding, such as float (token, feature) for
            `"elmo"` and (feature,) for `"default"`.

        Raises:
            TypeError, ValueError, ServerError: as of `predict`, when it comes to that sentence.
        """
        if in_flight < 1:
            raise ValueError(f"`in_flight` must be at least 1, but is {in_flight}.")
        return self._asking().streaming(sentences, outputs, signature, self.timeout, in_flight)

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{1: "AVAILABLE"}`.

        Raises:
            ServerError: there was no answer, or a refusal.
        """
        response = run(self._asking().status(Deadline(self.timeout)))
        name_of = get_model_status_pb2.ModelVersionStatus.State.Name
        return {one.version: name_of(one.state) for one in response.model_version_status}

    def metadata(self) -> dict[str, Any]:
        """Returns the version and its signatures.

        Returns:
            `{"version": 1, "signatures": {"serving_default": {"inputs": {"strings": {"dtype":
            "string", "shape": [None]}}, "outputs": …}, …}}`; an unknown rank is a shape of `None`.

        Raises:
            ServerError: there was no answer, or a refusal.
        """
        response = run(self._asking().metadata(Deadline(self.timeout)))
        return {
            "version": response.model_spec.version.value,
            "signatures": {
                name: {"inputs": _described(one.inputs), "outputs": _described(one.outputs)}
                for name, one in sorted(signatures_in(response).items())
                if one.method_name  # What only initialises the model has none.
            },
        }

    def close(self) -> None:
        """Closes the connection."""
        self._closed = True
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _asking(self) -> Predictor:
        if self._closed:
            raise ValueError("The client is closed.")
        return self._predictor


def _described(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, dict[str, Any]]:
    described = {}
    for name, info in sorted(infos.items()):
        shape = tf.TensorShape(info.tensor_shape)
        described[name] = {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": None if shape.rank is None else shape.as_list(),
        }
    return described
