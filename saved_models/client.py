"""The arrow back from a model server: sentences in, arrays out, from any TF Serving server."""

from collections.abc import Iterable, Sequence
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

from elmo_tf.saved_models.requests import Sentence, predict_request


class ServerError(grpc.RpcError):
    """The server was not reached, has refused the request, failed at it, or was too slow."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Returns gRPC's status code, such as `grpc.StatusCode.NOT_FOUND` for a wrong model."""
        return self._code

    def details(self) -> str:
        """Returns what was wrong, as the server says it."""
        return self._details


class Client:
    """Asks a model server for the vectors of sentences. Threads may share it.

    Args:
        address: `"host:port"` of the server's gRPC.
        model: what the server calls the model.
        timeout: seconds that a call may take; `None` means no limit.
        version: of the model; `None` means the one that the server prefers.

    Raises:
        ValueError: `address` has no port, or is a URL.
    """

    def __init__(
        self,
        address: str,
        model: str = "elmo",
        timeout: float | None = 60.0,
        version: int | None = None,
    ):
        if ":" not in address or address.lower().startswith(("http:", "https:")):
            raise ValueError(
                f"The address must be host:port of the server's gRPC, such as localhost:8500, "
                f"but is {address!r}."
            )
        self.address = address
        self.timeout = timeout
        self._spec = model_pb2.ModelSpec(name=model)
        if version is not None:
            self._spec.version.value = version
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
            ],
        )
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

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
            outputs: names of the wanted outputs; only these travel. None named means all.
            signature: the signature to ask. Defaults to `"serving_default"` for strings and
                `"tokens"` for lists of tokens.

        Returns:
            One array for each of `outputs`, such as float (batch, token, feature) for `"elmo"`,
            padded to the longest sentence.

        Raises:
            TypeError: `sentences` is one string, mixes strings with lists of tokens, or holds
                something else.
            ValueError: an empty token stands before a real one.
            ServerError: there was no answer, or a refusal.
        """
        outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        request = predict_request(self._spec, sentences, outputs, signature)
        response = self._call(self._predictions.Predict, request)
        names = outputs or sorted(response.outputs)
        return {name: tf.make_ndarray(response.outputs[name]) for name in names}

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{1: "AVAILABLE"}`.

        Raises:
            ServerError: there was no answer, or a refusal.
        """
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=self._spec)
        response = self._call(self._models.GetModelStatus, request)
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
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec, metadata_field=["signature_def"]
        )
        response = self._call(self._predictions.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return {
            "version": response.model_spec.version.value,
            "signatures": {
                name: {"inputs": _described(one.inputs), "outputs": _described(one.outputs)}
                for name, one in sorted(signatures.signature_def.items())
                if one.method_name  # What only initialises the model has none.
            },
        }

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(self, method: grpc.UnaryUnaryMultiCallable, request: Message) -> Any:
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code == grpc.StatusCode.UNAVAILABLE:
                details = (
                    f"Cannot reach a model server at {self.address}: {details}. Is it running, "
                    f"and is this the port of its gRPC?"
                )
            elif code == grpc.StatusCode.DEADLINE_EXCEEDED:
                details = (
                    f"{self.address} did not answer within {self.timeout} s. Send fewer sentences "
                    f"at once, or allow a longer timeout."
                )
            raise ServerError(code, details) from error


def _described(infos: dict[str, meta_graph_pb2.TensorInfo]) -> dict[str, dict[str, Any]]:
    described = {}
    for name, info in sorted(infos.items()):
        shape = tf.TensorShape(info.tensor_shape)
        described[name] = {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": None if shape.rank is None else shape.as_list(),
        }
    return described
