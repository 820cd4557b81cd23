"""TensorProto ◄─► array, in TF Serving's encoding."""

import contextlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from elmo_tf.saved_models.server.errors import invalid


def array_of(alias: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Returns the array of a tensor in a request, whose size has been checked.

    Raises:
        tf.errors.InvalidArgumentError: the proto is not a valid tensor.
    """
    # KeyError: a type without values. OverflowError: a number outside the range of its type.
    with contextlib.suppress(KeyError, OverflowError, TypeError, ValueError):
        return tf.make_ndarray(proto)
    raise invalid(f"tensor parsing error: {alias}")


# TF Serving writes values into the field of their type, where clients in other languages expect
# them. Packed fields are given by number and by the binary type of their values.
_PACKED_FIELDS = {
    tf.float32: (5, np.dtype("<f4")),
    tf.float64: (6, np.dtype("<f8")),
}
_VALUE_FIELDS = {
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def proto_of(value: np.ndarray | bytes, dtype: int) -> tensor_pb2.TensorProto:
    """Encodes the value of an output, with the values in the field of their type."""
    dtype = tf.as_dtype(dtype)
    array = np.asarray(value, dtype=dtype.as_numpy_dtype)
    if dtype not in _VALUE_FIELDS and dtype not in _PACKED_FIELDS:
        return tf.make_tensor_proto(array, dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    if dtype in _VALUE_FIELDS:
        getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    elif array.size:
        # In protobuf's binary format: converting to Python floats takes as long as the biLM.
        number, wire_type = _PACKED_FIELDS[dtype]
        content = np.ascontiguousarray(array, wire_type).tobytes()
        proto.MergeFromString(bytes([number << 3 | 2]) + _varint(len(content)) + content)
    return proto


def _varint(number: int) -> bytes:
    """Encodes a number as a protobuf varint: seven bits per byte, lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
