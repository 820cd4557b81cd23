import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.exporting.warmup import write_warmup
from elmo_tf.saved_models.server.limits import Limits
from elmo_tf.saved_models.server.loaded_version import LoadedVersion
from elmo_tf.saved_models.server.tensors import array_of
from serving_requests import predict_request


@pytest.fixture(scope="module")
def signatures(model_directory):
    version = LoadedVersion(2, model_directory / "2")
    yield version.signatures
    version.close()


def of_shape(dtype, *shape):
    """A proto of a tensor of this shape, without its values."""
    return tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(shape).as_proto()
    )


@pytest.mark.parametrize("size", [0, 2**31])
def test_a_size_limit_of_0_or_2_gib_is_refused(size):
    with pytest.raises(ValueError, match=f"max_request_bytes.*{size}"):
        Limits(max_request_bytes=size)


@pytest.mark.parametrize(
    "proto",
    [
        of_shape(tf.float32, 251),
        of_shape(tf.string, 63),
        of_shape(tf.float32, 2**40, 2**40),
        of_shape(tf.int64, 5, 26),
        of_shape(tf.string, 0, 2**50),
        tensor_pb2.TensorProto(
            dtype=tf.string.as_datatype_enum,
            tensor_shape=tf.TensorShape([10]).as_proto(),
            string_val=[b"", b"a" * 120],
        ),
    ],
)
def test_a_tensor_that_expands_beyond_the_size_limit_is_refused(proto):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"error: x has the shape .* 1000 by"):
        array_of("x", proto, Limits(max_request_bytes=1000))


@pytest.mark.parametrize("proto", [of_shape(tf.float32, 250), of_shape(tf.string, 0, 62)])
def test_a_tensor_within_the_limit_passes(proto):
    assert array_of("x", proto, Limits(max_request_bytes=1000)).size in (250, 0)


@pytest.mark.parametrize("shape", [None, [None], [-2]])
def test_a_tensor_of_unknown_shape_is_refused(shape):
    proto = tensor_pb2.TensorProto(dtype=tf.float32.as_datatype_enum)
    if shape == [-2]:
        proto.tensor_shape.dim.add(size=-2)
    else:
        proto.tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    with pytest.raises(tf.errors.InvalidArgumentError, match="tensor parsing error: x"):
        array_of("x", proto, Limits())


def strings(*sentences):
    return {"strings": np.array([sentence.encode() for sentence in sentences], object)}


@pytest.mark.parametrize(
    ("sentences", "num_tokens"),
    [([], 0), (["", " "], 0), (["a b", "c"], 4), (["a\u3000b\x1cc\x85d"], 4), (["a"] * 10, 10)],
)
def test_tokens_of_strings_are_counted_with_padding(signatures, sentences, num_tokens):
    limits = Limits(max_tokens=10)
    assert limits.check_tokens(signatures["serving_default"], strings(*sentences)) == num_tokens


@pytest.mark.parametrize("sentences", [["a " * 11], ["a b", "", "", "", "", ""], ["a"] * 11])
def test_more_than_max_tokens_are_refused(signatures, sentences):
    with pytest.raises(tf.errors.InvalidArgumentError, match="product must be at most 10"):
        Limits(max_tokens=10).check_tokens(signatures["serving_default"], strings(*sentences))


def test_text_is_limited_if_the_sentence_lengths_are_not_an_output(signatures):
    classifier = meta_graph_pb2.SignatureDef()
    classifier.CopyFrom(signatures["serving_default"])
    del classifier.outputs["sequence_len"]
    limits = Limits(max_sentences=2, max_tokens=4)
    assert limits.check_tokens(classifier, strings("a b", "c")) == 4
    for sentences, message in ((["a"] * 3, "has 3 sentences"), (["a b c", "d"], "at most 4")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            limits.check_tokens(classifier, strings(*sentences))


def test_padding_counts_as_tokens(signatures):
    inputs = {"tokens": np.full((2, 6), b"a", object), "sequence_len": np.array([1, 1], np.int32)}
    assert Limits(max_tokens=12).check_tokens(signatures["tokens"], inputs) == 12
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 sentences, the longest with 6"):
        Limits(max_tokens=11).check_tokens(signatures["tokens"], inputs)


def test_token_positions_are_limited_in_an_empty_batch_too(signatures):
    inputs = {"tokens": np.full((0, 6), b"", object), "sequence_len": np.array([], np.int32)}
    with pytest.raises(tf.errors.InvalidArgumentError, match="product must be at most 5"):
        Limits(max_tokens=5).check_tokens(signatures["tokens"], inputs)


def test_each_byte_of_raw_text_counts_as_a_token(signatures):
    raw = meta_graph_pb2.SignatureDef()
    raw.CopyFrom(signatures["serving_default"])
    raw.outputs["starts"].dtype = tf.int64.as_datatype_enum
    assert Limits(max_tokens=10).check_tokens(raw, strings("!!!!", "a")) == 8
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 sentences, the longest with 6"):
        Limits(max_tokens=10).check_tokens(raw, strings("!!!!!!", "a"))


def test_a_signature_without_text_has_no_token_limit(signatures):
    inputs = {"number": np.float32(1), "flags": np.zeros(100, bool)}
    limits = Limits(max_sentences=2, max_tokens=2)
    assert limits.check_tokens(signatures["other_types"], inputs) == 0


def test_a_limit_below_one_is_an_error():
    with pytest.raises(ValueError, match="`max_tokens` must be an integer of at least 1"):
        Limits(max_tokens=0)


def test_warm_up_requests_have_no_limits(model_directory, tmp_path):
    shutil.copytree(model_directory / "2", tmp_path / "2")
    (tmp_path / "2" / "assets.extra").mkdir()
    write_warmup(tmp_path / "2", ["a bb"])
    version = LoadedVersion(2, tmp_path / "2", Limits(max_sentences=2))
    assert version.answer(predict_request({"strings": tf.make_tensor_proto(["a", "b"])})).outputs
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 3 sentences, more than 2"):
        version.answer(predict_request())
    version.close()
