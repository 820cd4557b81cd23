"""Requests ─► JSON ─► arrays, by the rules of TF Serving's REST interface.

`inputs` and `outputs` hold complete tensors. Strings are UTF-8, or bytes as {"b64": "…"}.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from elmo_tf.saved_models.client.calls import ServerError
from elmo_tf.text.sentences import encode


def request_body(request: predict_pb2.PredictRequest) -> bytes:
    """Returns the body of a request. REST has no `output_filter`: all outputs are returned."""
    inputs = {name: tf.make_ndarray(tensor) for name, tensor in sorted(request.inputs.items())}
    document = {
        "signature_name": request.model_spec.signature_name,
        "inputs": {name: _jsonable(array.tolist()) for name, array in inputs.items()},
    }
    return json.dumps(document, ensure_ascii=False).encode()


def response_arrays(
    document: Any, wanted: list[str], infos: Mapping[str, meta_graph_pb2.TensorInfo]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a response.

    Args:
        document: the parsed response.
        wanted: names of the outputs to keep; empty means all.
        infos: the outputs of the signature, for their dtypes and for empty axes; empty if they are
            unknown.

    Raises:
        ValueError: `document` is not a response.
        ServerError: there is no such output.
    """
    if not isinstance(document, dict) or "outputs" not in document:
        raise ValueError("there is no key 'outputs'")
    values = document["outputs"]
    if not isinstance(values, dict) or set(values) == {"b64"}:
        # The only output of a signature is sent without its name.
        (name,) = infos if len(infos) == 1 else (*wanted, "outputs")[:1]
        values = {name: values}
    for name in wanted:
        if name not in values:
            raise ServerError(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"output tensor alias not found in signature: {name} "
                f"Outputs expected to be in the set {{{','.join(sorted(values))}}}.",
            )
    names = wanted or sorted(values)
    return {name: _array(values[name], infos.get(name)) for name in names}


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(element) for element in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode("ascii")}


def _array(value: Any, info: meta_graph_pb2.TensorInfo | None) -> np.ndarray:
    dtype = None if info is None else tf.as_dtype(info.dtype).as_numpy_dtype
    if dtype is object or (dtype is None and _is_text(_first(value))):
        array = np.vectorize(_as_bytes, otypes=[object])(np.array(value, object))
    else:
        array = np.asarray(value)
        if dtype is None and array.dtype == np.float64:
            dtype = np.float32
        array = array.astype(dtype or array.dtype)
    return array if info is None else _with_all_axes(array, tf.TensorShape(info.tensor_shape))


def _with_all_axes(array: np.ndarray, shape: tf.TensorShape) -> np.ndarray:
    """Restores the axes after an empty axis, which JSON does not represent."""
    if array.size or shape.rank is None or array.ndim >= shape.rank:
        return array
    return array.reshape([*array.shape, *(size or 0 for size in shape.as_list()[array.ndim :])])


def _first(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and set(value) == {"b64"})


def _as_bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else encode(value)
