import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.tensors import array_of, proto_of

NUMBERS = np.arange(70_000).reshape(7, 100, 100)


@pytest.mark.parametrize(
    ("dtype", "field"),
    [
        (tf.float32, "float_val"),
        (tf.float64, "double_val"),
        (tf.int32, "int_val"),
        (tf.int64, "int64_val"),
    ],
)
def test_numbers_are_in_the_field_of_their_type(dtype, field):
    array = NUMBERS.astype(dtype.as_numpy_dtype)
    proto = proto_of(array)
    assert len(getattr(proto, field)) == array.size
    assert not proto.tensor_content
    np.testing.assert_array_equal(tf.make_ndarray(proto), array)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 4095, 4096])
def test_float_arrays_of_any_size_are_sent_exactly(size):
    array = np.linspace(-1, 1, size, dtype=np.float32)
    np.testing.assert_array_equal(tf.make_ndarray(proto_of(array)), array)


def test_slices_are_sent_exactly():
    array = NUMBERS.astype(np.float32)[2:5, :7]
    np.testing.assert_array_equal(tf.make_ndarray(proto_of(array)), array)


@pytest.mark.parametrize(
    "proto",
    [
        tensor_pb2.TensorProto(dtype=tf.variant.as_datatype_enum),
        tensor_pb2.TensorProto(dtype=tf.uint8.as_datatype_enum, int_val=[256]),
        tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, string_val=[b"a", b"b"]),
        tensor_pb2.TensorProto(dtype=tf.float32.as_datatype_enum, tensor_content=b"123"),
        tensor_pb2.TensorProto(dtype=9999),
    ],
)
def test_an_invalid_tensor_proto_is_refused(proto):
    with pytest.raises(tf.errors.InvalidArgumentError, match="tensor parsing error: x"):
        array_of("x", proto, Limits())
