"""TensorProto ◄─► array, in TF Serving's encoding."""

import contextlib

import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow.core.framework import tensor_pb2

from elmo_tf.saved_models.server.errors import invalid
from elmo_tf.saved_models.server.limits import Limits

# TF Serving writes values into the field of their type, where clients in other languages expect
# them. Packed fields are given by number and by the binary type of their values.
_PACKED_FIELDS = {tf.float32: (5, np.dtype("<f4")), tf.float64: (6, np.dtype("<f8"))}
_VALUE_FIELDS = {
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def array_of(alias: str, proto: tensor_pb2.TensorProto, limits: Limits) -> np.ndarray:
    """Decodes a tensor of a request."""
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if not proto.tensor_shape.unknown_rank and min(shape, default=0) >= 0:
        limits.check_size(alias, proto.dtype, shape, proto.string_val)
        # KeyError: a type without values. OverflowError: a number outside the range of its type.
        with contextlib.suppress(KeyError, OverflowError, TypeError, ValueError):
            return tf.make_ndarray(proto)
    raise invalid(f"tensor parsing error: {alias}")


def proto_of(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Encodes an output, with the values in the field of their type."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _VALUE_FIELDS and dtype not in _PACKED_FIELDS:
        return tf.make_tensor_proto(array, dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    if dtype in _VALUE_FIELDS:
        getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    elif array.size:
        # In protobuf's binary format: converting to Python floats takes as long as the biLM. A
        # packed field is written like one of bytes; the first byte is the number of the field.
        index, wire_type = _PACKED_FIELDS[dtype]
        content = np.ascontiguousarray(array, wire_type).tobytes()
        field = wrappers_pb2.BytesValue(value=content).SerializeToString()
        proto.MergeFromString(bytes([index << 3 | 2]) + field[1:])
    return proto
