"""JSON ◄─► arrays, by the rules of TF Serving's REST interface.

A request holds `instances`, one value per row, or `inputs`, complete tensors. A value is an object
of named tensors, or a plain tensor if the signature has one input. Strings are UTF-8, or bytes as
{"b64": "…"}. Bytes that are not UTF-8 are preserved in both directions (`surrogateescape`).
"""

import base64
import itertools
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from pydantic import TypeAdapter
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.server.limits import Limits, invalid


def parse(body: bytes) -> dict[str, Any]:
    """Parses the body of a request and checks its keys."""
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is not JSON: {error}") from error
    if not isinstance(document, dict) or ("instances" in document) == ("inputs" in document):
        raise invalid(
            f"Expected a JSON object with 'instances' or 'inputs', but got {_shown(document)}"
        )
    if not isinstance(name := document.get("signature_name", ""), str):
        raise invalid(f"'signature_name' must be a string, not {_shown(name)}")
    return document


def input_arrays(
    document: dict[str, Any], infos: Mapping[str, meta_graph_pb2.TensorInfo], limits: Limits
) -> dict[str, np.ndarray]:
    """Returns the arrays of a request for the inputs in `infos`."""
    if "inputs" in document:
        values = _named(document["inputs"], infos, "'inputs'")
    else:
        rows = document["instances"]
        if not isinstance(rows, list) or not rows:
            raise invalid(f"Expected 'instances' to be a list of rows, but got {_shown(rows)}")
        for name, info in infos.items():
            limits.check_size(name, info.dtype, [len(rows)])
        rows = [_named(row, infos, f"row {i} of 'instances'") for i, row in enumerate(rows)]
        values = {name: [row[name] for row in rows] for name in infos}
    return {name: _array(name, values[name], info, limits) for name, info in infos.items()}


def response(document: dict[str, Any], outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the response to a request: rows for `instances`, complete tensors for `inputs`.

    If there is one output, its values are plain instead of objects.
    """
    has_instances = "instances" in document
    shapes = {name: array.shape for name, array in outputs.items()}
    has_rows = () not in shapes.values() and len({shape[0] for shape in shapes.values()}) == 1
    if has_instances and not has_rows:
        raise invalid(
            f"The outputs do not have one row for each instance: their shapes are {shapes}. "
            "Use 'inputs' instead of 'instances'."
        )
    values: Any = {name: _jsonable(name, array) for name, array in outputs.items()}
    if len(values) == 1:
        (values,) = values.values()
    elif has_instances:
        rows = zip(*values.values(), strict=True)
        values = [dict(zip(outputs, row, strict=True)) for row in rows]
    return {"predictions" if has_instances else "outputs": values}


def _named(value: Any, names: Collection[str], where: str) -> dict[str, Any]:
    """Returns the value of each input; a plain value belongs to the only input."""
    if not isinstance(value, dict) or set(value) == {"b64"}:
        if len(names) == 1:
            return dict.fromkeys(names, value)
    elif set(value) == set(names):
        return value
    raise invalid(f"Expected {where} to be an object with {sorted(names)}, but got {_shown(value)}")


def _array(name: str, value: Any, info: meta_graph_pb2.TensorInfo, limits: Limits) -> np.ndarray:
    dtype, rank = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape).rank
    values = np.array(value, object)
    if rank not in (None, values.ndim):
        raise invalid(
            f"Expected {name} to have {rank} axes with lists of equal lengths, but got "
            f"{values.ndim}: {_shown(value)}"
        )
    limits.check_size(name, info.dtype, values.shape)
    kind, scalars = dtype.name, values.ravel().tolist()
    try:
        if dtype == tf.string:
            kind = 'strings (Unicode, or bytes as {"b64": "…"})'
            scalars = [_bytes(scalar) for scalar in scalars]
        else:
            scalar_type = bool if dtype.is_bool else int if dtype.is_integer else float
            scalars = TypeAdapter(list[scalar_type]).validate_python(scalars, strict=True)
        return np.array(scalars, dtype.as_numpy_dtype).reshape(values.shape)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise invalid(f"Expected {name} to hold {kind}, but got {_shown(value)}") from error


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    return value.encode("utf-8", "surrogateescape")


def _shown(value: Any) -> str:
    # Encoded piece by piece, because the value may be large or deeply nested.
    text = "".join(itertools.islice(json.JSONEncoder().iterencode(value), 201))
    return text if len(text) <= 200 else text[:200] + "…"


def _jsonable(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        # TF Serving's rule: outputs whose names end in "_bytes" are binary.
        def text_of(value: bytes) -> Any:
            if name.endswith("_bytes"):
                return {"b64": base64.b64encode(value).decode("ascii")}
            return value.decode("utf-8", "surrogateescape")

        return np.vectorize(text_of, otypes=[object])(array).tolist()
    if np.issubdtype(array.dtype, np.floating):
        if array.ndim > 1:  # row by row, because numbers as text need 32 times the memory
            return [_jsonable(name, row) for row in array]
        # Via text, so that float32 0.1 is written as 0.1 and not as 0.10000000149.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()
