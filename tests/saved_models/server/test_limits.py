"""Decoding and encoding tensors, and the limits of their sizes."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import write_warmup
from elmo_tf.saved_models.server.batching import Batching
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.loaded_version import LoadedVersion, array_of, proto_of
from serving_requests import predict_request

NUMBERS = np.arange(70_000).reshape(7, 100, 100)


@pytest.fixture(scope="module")
def signatures(model_directory):
    version = LoadedVersion(2, model_directory / "2")
    yield version.signatures
    version.close()


def proto_with(dtype=tf.float32, shape=(), **values):
    """A proto of a tensor of this shape, without its values."""
    shape = tf.TensorShape(shape).as_proto()
    return tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape, **values)


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
    for part in (array, array[2:5, :7], *(array.ravel()[:size] for size in (0, 1, 31, 32, 4096))):
        proto = proto_of(part)
        assert len(getattr(proto, field)) == part.size
        assert not proto.tensor_content
        np.testing.assert_array_equal(tf.make_ndarray(proto), part)


def test_strings_without_values_are_empty_bytes():
    assert array_of("x", proto_with(tf.string, [2]), Limits()).tolist() == [b"", b""]


@pytest.mark.parametrize(
    "proto",
    [
        proto_with(tf.variant),
        proto_with(tf.uint8, int_val=[256]),
        proto_with(tf.string, string_val=[b"a", b"b"]),
        proto_with(tensor_content=b"123"),
        proto_with(shape=None),
        proto_with(shape=[None]),
        tensor_pb2.TensorProto(dtype=1, tensor_shape={"dim": [{"size": -2}]}),
        tensor_pb2.TensorProto(dtype=9999),
    ],
)
def test_an_invalid_tensor_proto_is_refused(proto):
    with pytest.raises(tf.errors.InvalidArgumentError, match="tensor parsing error: x"):
        array_of("x", proto, Limits())


@pytest.mark.parametrize(
    "proto",
    [
        proto_with(tf.float32, [251]),
        proto_with(tf.string, [63]),
        proto_with(tf.float32, [2**40, 2**40]),
        proto_with(tf.int64, [5, 26]),
        proto_with(tf.string, [0, 2**50]),
        proto_with(tf.string, [10], string_val=[b"", b"a" * 120]),
    ],
)
def test_a_tensor_that_expands_beyond_the_size_limit_is_refused(proto):
    limits = Limits(max_request_bytes=1000)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"error: x has the shape .* 1000 by"):
        array_of("x", proto, limits)
    for within in (proto_with(tf.float32, [250]), proto_with(tf.string, [0, 62])):
        assert array_of("x", within, limits).size in (250, 0)


def strings(*sentences):
    return {"strings": np.array([sentence.encode() for sentence in sentences], object)}


def changed(signature, remove=(), **dtypes):
    """A signature with other outputs."""
    result = meta_graph_pb2.SignatureDef()
    result.CopyFrom(signature)
    for name in remove:
        del result.outputs[name]
    for name, dtype in dtypes.items():
        result.outputs[name].dtype = dtype.as_datatype_enum
    return result


@pytest.mark.parametrize(
    ("sentences", "num_tokens"),
    [
        *(([], 0), (["", " "], 0), (["a b", "c"], 4), (["a\u3000b\x1cc\x85d"], 4)),
        *((["a"] * 10, 10), (["a " * 11], None), (["a b", "", "", "", "", ""], None)),
        (["a"] * 11, None),
    ],
)
def test_tokens_of_strings_are_counted_with_padding_and_limited(signatures, sentences, num_tokens):
    # A classifier has no output `sequence_len`.
    of_texts = changed(signatures["serving_default"], ["sequence_len"])
    for signature in (signatures["serving_default"], of_texts):
        if num_tokens is None:
            with pytest.raises(tf.errors.InvalidArgumentError, match="product must be at most 10"):
                Limits(max_tokens=10).check_tokens(signature, strings(*sentences))
        else:
            limits = Limits(max_tokens=10)
            assert limits.check_tokens(signature, strings(*sentences)) == num_tokens
        if len(sentences) == 11:
            with pytest.raises(tf.errors.InvalidArgumentError, match="has 11 sentences"):
                Limits(max_sentences=10).check_tokens(signature, strings(*sentences))


@pytest.mark.parametrize("num_sentences", [2, 0])
def test_padding_counts_as_tokens_in_an_empty_batch_too(signatures, num_sentences):
    inputs = {
        "tokens": np.full((num_sentences, 6), b"a", object),
        "sequence_len": np.ones(num_sentences, np.int32),
    }
    num_tokens = 6 * max(1, num_sentences)
    limits = Limits(max_tokens=num_tokens)
    assert limits.check_tokens(signatures["tokens"], inputs) == num_tokens
    message = f"{num_sentences} sentences, the longest with 6"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        Limits(max_tokens=num_tokens - 1).check_tokens(signatures["tokens"], inputs)


def test_each_byte_of_raw_text_counts_as_a_token(signatures):
    raw = changed(signatures["serving_default"], starts=tf.int64)
    assert Limits(max_tokens=10).check_tokens(raw, strings("!!!!", "a")) == 8
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 sentences, the longest with 6"):
        Limits(max_tokens=10).check_tokens(raw, strings("!!!!!!", "a"))


def test_a_signature_without_text_has_no_token_limit(signatures):
    inputs = {"number": np.float32(1), "flags": np.zeros(100, bool)}
    limits = Limits(max_sentences=2, max_tokens=2)
    assert limits.check_tokens(signatures["other_types"], inputs) == 0


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        *((Limits, {"max_request_bytes": size}) for size in (0, 2**31)),
        (Limits, {"max_tokens": 0}),
        *((Batching, limit) for limit in ({"max_batch_size": 0}, {"batch_timeout_micros": -1})),
    ],
)
def test_a_limit_out_of_range_is_an_error(kind, limit):
    ((name, size),) = limit.items()
    with pytest.raises(ValueError, match=f"`{name}` must be an integer of at least .*: {size}"):
        kind(**limit)


def test_warm_up_requests_have_no_limits(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    (tmp_path / "2" / "assets.extra").mkdir()
    write_warmup(tmp_path / "2", ["a bb"])
    version = LoadedVersion(2, tmp_path / "2", Limits(max_sentences=2))
    assert version.answer(predict_request({"strings": tf.make_tensor_proto(["a", "b"])})).outputs
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 3 sentences, more than 2"):
        version.answer(predict_request())
    version.close()
