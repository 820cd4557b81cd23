"""One version of an exported model, loaded in a session.

Like TF Serving, this uses a TF1-style session, so that models that fail there fail here, too.
Requests and responses are TF Serving's protos.
"""

import copy
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from elmo_tf.saved_models.exporting.warmup import read_warmup
from elmo_tf.saved_models.operations import register_operations
from elmo_tf.saved_models.server.batch_rows import Call
from elmo_tf.saved_models.server.batching import Batcher, Batching
from elmo_tf.saved_models.server.errors import braces, invalid, shortened
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.metrics import Metrics
from elmo_tf.saved_models.server.tensors import array_of, proto_of
from elmo_tf.threads import num_cores

DEFAULT_SIGNATURE = "serving_default"

_NO_LIMITS = Limits(2**31 - 1, 2**62, 2**62)  # for warm-up requests
# Signatures of these methods accept predictions.
_METHOD_NAMES = tuple(
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)


class LoadedVersion:
    """A version of a model. Loading it runs its warm-up requests.

    Raises:
        Exception: TensorFlow cannot load the version, or a warm-up request fails.
    """

    def __init__(
        self,
        number: int,
        path: Path,
        limits: Limits | None = None,
        batching: Batching | None = None,
        metrics: Metrics | None = None,
    ):
        self.number = number
        self._limits = _NO_LIMITS
        # At most as many parallel runs as in TF Serving.
        self._free = threading.BoundedSemaphore(4 * num_cores())
        # On two cores, splitting short operations costs more than it saves: see `elmo_tf.threads`.
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=int(num_cores() <= 2))
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        self._batcher = None
        try:
            register_operations(path)
            with self._session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self._session, [tf.saved_model.SERVING], os.fspath(path)
                )
            # A copy, so that the graph of `meta_graph` can be freed.
            self.signatures = copy.deepcopy(dict(meta_graph.signature_def))
            for request in read_warmup(path):
                self.answer(request)
            self._limits = limits or Limits()
            if batching is not None:
                self._batcher = Batcher(self._run, batching, metrics)
        except BaseException:
            self._session.close()
            raise

    def answer(
        self,
        request: predict_pb2.PredictRequest,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> predict_pb2.PredictResponse:
        """Answers a request; its model name is ignored.

        Args:
            request: the request.
            is_awaited: returns whether the client still waits; called before the computation.

        Raises:
            tf.errors.OpError: the request is rejected or fails.
        """
        call = self._call(request, is_awaited)
        if self._batcher is None:
            arrays = self._run(call.name, call.inputs, call.aliases)
        else:
            arrays = self._batcher.run(call)
        response = predict_pb2.PredictResponse()
        response.model_spec.signature_name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        for alias, array in zip(call.aliases, arrays, strict=True):
            info = call.signature.outputs[alias]
            response.outputs[alias].CopyFrom(proto_of(array, info.dtype))
        return response

    def inputs_of(
        self, request: predict_pb2.PredictRequest
    ) -> Mapping[str, meta_graph_pb2.TensorInfo]:
        """Returns the inputs of a request's signature by name.

        Raises:
            tf.errors.InvalidArgumentError: the signature does not exist.
        """
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            message = f'Serving signature name: "{shortened(name)}" not found in signature def'
            raise invalid(message)
        return self.signatures[name].inputs

    def close(self) -> None:
        """Closes the session. No requests may be running."""
        if self._batcher is not None:
            self._batcher.close()
        self._session.close()

    def _call(self, request: predict_pb2.PredictRequest, is_awaited: Callable[[], bool]) -> Call:
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            message = f'Serving signature key "{name}" not found.'
            raise tf.errors.FailedPreconditionError(None, None, message)
        signature = self.signatures[name]
        if signature.method_name not in _METHOD_NAMES:
            message = (
                "Expected prediction signature method_name to be one of "
                f"{braces(_METHOD_NAMES)}. Was: {signature.method_name}"
            )
            raise tf.errors.InternalError(None, None, message)
        inputs = _inputs(signature, request.inputs, self._limits)
        aliases = _output_aliases(signature, request.output_filter)
        num_tokens = self._limits.check_tokens(signature, inputs)
        return Call(name, signature, inputs, aliases, num_tokens, is_awaited)

    def _run(
        self, name: str, inputs: Mapping[str, np.ndarray], aliases: Sequence[str]
    ) -> list[np.ndarray]:
        signature = self.signatures[name]
        feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
        with self._free:
            return self._session.run([signature.outputs[alias].name for alias in aliases], feeds)


def _inputs(
    signature: meta_graph_pb2.SignatureDef,
    inputs: Mapping[str, tensor_pb2.TensorProto],
    limits: Limits,
) -> dict[str, np.ndarray]:
    """Checks the inputs of a request and returns them as arrays."""
    given, wanted = set(inputs), set(signature.inputs)
    if given != wanted:
        raise invalid(
            f"inputs do not match signature: {braces(given)} != {braces(wanted)}. "
            f"Sent extra: {braces(given - wanted)}. "
            f"Missing but required: {braces(wanted - given)}."
        )
    arrays = {}
    for alias, info in signature.inputs.items():
        limits.check_size(alias, inputs[alias])
        arrays[alias] = array_of(alias, inputs[alias])
        # Python sessions convert dtypes; TF Serving does not.
        if inputs[alias].dtype != info.dtype:
            expected, received = (
                tf.as_dtype(tensor.dtype).name for tensor in (info, inputs[alias])
            )
            raise invalid(f"Expects {alias} to be {expected} but {received} is provided")
        expected, received = tf.TensorShape(info.tensor_shape), arrays[alias].shape
        if not expected.is_compatible_with(received):
            raise invalid(
                f"Expects {alias} to have the shape {expected} but {received} is provided"
            )
    return arrays


def _output_aliases(signature: meta_graph_pb2.SignatureDef, output_filter: list[str]) -> list[str]:
    seen = set()
    for alias in output_filter:
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {braces(signature.outputs)}."
            )
        if alias in seen:
            raise invalid(f"duplicate output tensor alias: {alias}")
        seen.add(alias)
    return list(output_filter) or sorted(signature.outputs)
