"""One version of an exported model, in a session: requests in, answers out.

A model is loaded and run as TF Serving does it, in a TF1-style session, so that what fails there
fails here. Requests and answers are TF Serving's protos.
"""

import contextlib
import copy
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from elmo_tf.saved_models.operations import register_operations
from elmo_tf.saved_models.warmup import read_warmup

MAX_REQUEST_BYTES = 64 * 1024 * 1024
DEFAULT_SIGNATURE = "serving_default"

# What a signature may be called for and still be asked for a prediction.
_METHOD_NAMES = tuple(
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)


class LoadedVersion:
    """A version of a model. Requests that lie beside it to warm it up are answered first.

    Args:
        number: of the version.
        path: its folder.

    Raises:
        Exception: what TensorFlow raises, or a warm-up request does, if it cannot be loaded.
    """

    def __init__(self, number: int, path: Path):
        self.number = number
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            register_operations(path)
            with self._session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self._session, [tf.saved_model.SERVING], os.fspath(path)
                )
            # A copy, so that the graph that came with it need not stay in memory.
            self.signatures = copy.deepcopy(dict(meta_graph.signature_def))
            for request in read_warmup(path):
                self.answer(request)
        except BaseException:
            self._session.close()
            raise

    def answer(self, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
        """The outputs for a request, whatever model it names.

        Raises:
            tf.errors.OpError: the request is refused, or fails.
        """
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
        feeds = _feeds(signature, request.inputs)
        aliases = _output_aliases(signature, request.output_filter)
        arrays = self._run(feeds, [signature.outputs[alias].name for alias in aliases])
        response = predict_pb2.PredictResponse()
        response.model_spec.signature_name = name
        for alias, array in zip(aliases, arrays, strict=True):
            response.outputs[alias].CopyFrom(_tensor_proto(array, signature.outputs[alias].dtype))
        return response

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def _run(self, feeds: Mapping[str, np.ndarray], fetches: list[str]) -> list[np.ndarray]:
        try:
            return self._session.run(fetches, feeds)
        except ValueError as error:  # The shape of what is fed does not fit.
            raise invalid(str(error)) from error


def invalid(message: str) -> tf.errors.InvalidArgumentError:
    """Returns the error of a request that is wrong in itself."""
    return tf.errors.InvalidArgumentError(None, None, message)


def _feeds(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, tensor_pb2.TensorProto]
) -> dict[str, np.ndarray]:
    """Checks the inputs of a request; returns them as arrays by the name of their tensor."""
    given, wanted = set(inputs), set(signature.inputs)
    if given != wanted:
        raise invalid(
            f"inputs do not match signature: {braces(given)} != {braces(wanted)}. "
            f"Sent extra: {braces(given - wanted)}. "
            f"Missing but required: {braces(wanted - given)}."
        )
    feeds = {}
    for alias, info in signature.inputs.items():
        feeds[info.name] = _array(alias, inputs[alias])
        # A session fed from Python would convert it; TF Serving does not.
        if inputs[alias].dtype != info.dtype:
            expected, received = (tf.as_dtype(one.dtype).name for one in (info, inputs[alias]))
            raise invalid(f"Expects {alias} to be {expected} but {received} is provided")
    return feeds


def _output_aliases(signature: meta_graph_pb2.SignatureDef, output_filter: list[str]) -> list[str]:
    for position, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {braces(signature.outputs)}."
            )
        if alias in output_filter[:position]:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return list(output_filter) or sorted(signature.outputs)


def braces(names: Iterable[str]) -> str:
    """Names as TF Serving shows a set of them."""
    return "{" + ",".join(sorted(names)) + "}"


def _array(alias: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    # One value stands for a tensor that is filled with it: a small request must not fill memory.
    fits = all(size >= 0 for size in sizes) and math.prod(sizes) <= MAX_REQUEST_BYTES
    if fits and not proto.tensor_shape.unknown_rank:
        with contextlib.suppress(TypeError, ValueError):
            return tf.make_ndarray(proto)
    raise invalid(f"tensor parsing error: {alias}")


# The field of a TensorProto that holds the values of a type. Clients in other languages read it.
_VALUE_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def _tensor_proto(value: np.ndarray | bytes, dtype: int) -> tensor_pb2.TensorProto:
    """Returns what a session gave as TF Serving sends it: in the field of its type."""
    dtype = tf.as_dtype(dtype)
    array = np.asarray(value, dtype=dtype.as_numpy_dtype)
    if dtype not in _VALUE_FIELDS:
        return tf.make_tensor_proto(array, dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    return proto
