"""Decoding and encoding tensors, and the limits of their sizes."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from elmo_tf.saved_models.exporting.export import write_warmup
from elmo_tf.saved_models.server.batching import Limits
from elmo_tf.saved_models.server.model import LoadedVersion, array_of, proto_of
from serving_requests import predict_request

NUMBERS = np.arange(70_000).reshape(7, 100, 100)


def proto_with(dtype=tf.float32, shape=(), **values):
    """A proto of a tensor of this shape, without its values."""
    shape = tf.TensorShape(shape).as_proto()
    return tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape, **values)


@pytest.mark.parametrize(
    ("dtype", "field"), [("f4", "float_val"), ("i4", "int_val"), ("i8", "int64_val")]
)
def test_numbers_are_in_the_field_of_their_type(dtype, field):
    array = NUMBERS.astype(dtype)
    for part in (array, array[2:5, :7], *(array.ravel()[:size] for size in (0, 1, 31, 32, 4096))):
        proto = proto_of(part)
        assert len(getattr(proto, field)) == part.size
        assert not proto.tensor_content
        np.testing.assert_array_equal(tf.make_ndarray(proto), part)


INVALID = "x is not a valid tensor"
TOO_LARGE = r"has the shape .*, which is more than 1000 bytes"


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (proto_with(tf.variant), INVALID),
        (proto_with(tf.uint8, int_val=[256]), INVALID),
        (proto_with(tf.string, string_val=[b"a", b"b"]), INVALID),
        (proto_with(tensor_content=b"123"), INVALID),
        (proto_with(shape=[None]), INVALID),
        (tensor_pb2.TensorProto(dtype=1, tensor_shape={"dim": [{"size": -2}]}), INVALID),
        (tensor_pb2.TensorProto(dtype=9999), INVALID),
        (proto_with(tf.float32, [251]), TOO_LARGE),
        (proto_with(tf.string, [63]), TOO_LARGE),
        (proto_with(tf.float32, [2**40, 2**40]), TOO_LARGE),
        (proto_with(tf.string, [0, 2**50]), TOO_LARGE),
        (proto_with(tf.string, [10], string_val=[b"", b"a" * 120]), TOO_LARGE),
    ],
)
def test_an_invalid_tensor_or_one_that_expands_beyond_the_limit_is_refused(proto, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        array_of("x", proto, Limits(max_request_bytes=1000))


def test_tensors_within_the_limit_are_decoded_and_missing_strings_are_empty():
    limits = Limits(max_request_bytes=1000)
    assert array_of("x", proto_with(tf.float32, [250]), limits).size == 250
    assert array_of("x", proto_with(tf.string, [0, 62]), limits).size == 0
    assert array_of("x", proto_with(tf.string, [2]), limits).tolist() == [b"", b""]


def strings(*sentences):
    return {"strings": np.array([sentence.encode() for sentence in sentences], object)}


def tokens(*shape):
    return {"tokens": np.full(shape, b"a", object), "sequence_len": np.ones(shape[0], np.int32)}


@pytest.mark.parametrize(
    ("arguments", "num_tokens"),
    [
        ((strings(),), 1),
        ((strings("", " "),), 2),
        ((strings("a b", "c"),), 4),
        ((strings("a\u3000b\x1cc\x85d"),), 4),
        ((strings(*["a"] * 10),), 10),
        ((strings("a " * 11),), 11),
        ((strings("a b", "", "", "", "", ""),), 12),
        ((tokens(2, 6),), 12),
        ((tokens(0, 6),), 6),
        ((strings("!!!!", "a"), True), 8),  # raw text
    ],
)
def test_tokens_are_counted_with_padding_and_limited(arguments, num_tokens):
    assert Limits(max_tokens=num_tokens).check_tokens(*arguments) == num_tokens
    if num_tokens > 1:
        message = f"product must be at most {num_tokens - 1}"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            Limits(max_tokens=num_tokens - 1).check_tokens(*arguments)


def test_a_limit_out_of_range_is_an_error():
    for size in (0, 2**31):
        with pytest.raises(ValueError, match=f"`max_request_bytes`: .* Received: {size}"):
            Limits(max_request_bytes=size)


def test_warm_up_requests_have_no_limits(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    write_warmup(tmp_path / "2", [["a", "bb"]])
    version = LoadedVersion(2, tmp_path / "2", Limits(max_tokens=2))
    assert version.answer(predict_request({"strings": tf.make_tensor_proto(["a", "b"])})).outputs
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be at most 2"):
        version.answer(predict_request())
    version.close()
