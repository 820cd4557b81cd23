"""TensorProto ◄─► array, as TF Serving reads and writes them."""

import contextlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from elmo_tf.saved_models.server.errors import invalid


def array_of(alias: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array of a tensor in a request, whose size has been checked.

    Raises:
        tf.errors.InvalidArgumentError: it is none.
    """
    # KeyError: a type without values. OverflowError: a number that its type does not have.
    with contextlib.suppress(KeyError, OverflowError, TypeError, ValueError):
        return tf.make_ndarray(proto)
    raise invalid(f"tensor parsing error: {alias}")


# The field of a TensorProto that holds the values of a type, its number, and the type that its
# values lie there in, one after another. Clients in other languages read these.
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
    """What a session gave, as TF Serving sends it: in the field of its type."""
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
        # As it lies on the wire. By way of Python's numbers it takes as long as the biLM itself.
        number, wire_type = _PACKED_FIELDS[dtype]
        content = np.ascontiguousarray(array, wire_type).tobytes()
        proto.MergeFromString(bytes([number << 3 | 2]) + _varint(len(content)) + content)
    return proto


def _varint(number: int) -> bytes:
    """A number as protocol buffers write it: seven bits a byte, the lowest first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
