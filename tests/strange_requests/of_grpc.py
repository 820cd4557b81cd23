"""Strange protos."""

import functools

import numpy as np
import tensorflow as tf
from grpc import StatusCode
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    predict_pb2,
)

from strange_requests import Kind, mutated

OK = StatusCode.OK
INVALID = StatusCode.INVALID_ARGUMENT
NOT_FOUND = StatusCode.NOT_FOUND
PRECONDITION = StatusCode.FAILED_PRECONDITION
PREDICT = "/tensorflow.serving.PredictionService/Predict"
METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"

_NUMBERS = (-(2**63), -(2**31), -1, 0, 2, 2**31 - 1, 2**63 - 1)
_NAMES = (" ", "\0", "\n", "../1", "%s", "{}", "elmo\0", "ELMO", "é" * 50, "__saved_model")
_BYTES = (b"\xff", b"\xed\xa0\x80", b"\0", b"\xe2\x80", "\N{IDEOGRAPHIC SPACE}".encode(), b"")

KINDS = []


def _kind(method, *statuses, is_large=False):
    """Registers a function that gives a request, as a message or as bytes."""

    def register(function):
        @functools.wraps(function)
        def make(rng, size):
            request = function(rng, size)
            return request if isinstance(request, bytes) else request.SerializeToString()

        KINDS.append(Kind(function.__name__, make, frozenset(statuses), method, is_large))
        return function

    return register


def plain(sentences=(b"a bb", b"c"), outputs=("elmo", "sequence_len"), **spec):
    """A request in which nothing is strange."""
    return predict_pb2.PredictRequest(
        model_spec={"name": "elmo"} | spec,
        inputs={"strings": tf.make_tensor_proto(np.array(sentences, object), tf.string)},
        output_filter=outputs,
    )


def of_inputs(signature, **inputs):
    """A request of another signature."""
    request = plain(signature_name=signature)
    del request.inputs["strings"]
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return request


def of_tokens(sequence_len):
    tokens = np.array([[b"a", b"bb", b"c"], [b"dd", b"", b""]], object)
    return of_inputs("tokens", tokens=tokens, sequence_len=np.array(sequence_len))


def of_char_ids(*shape, dtype=np.int32):
    return of_inputs("char_ids", char_ids=np.ones(shape, dtype))


@_kind(PREDICT, INVALID)
def random_bytes(rng, size):
    return rng.randbytes(rng.randrange(300))


@_kind(PREDICT, OK, INVALID, NOT_FOUND, PRECONDITION)
def mutated_sentences(rng, size):
    return mutated(plain().SerializeToString(), rng)


@_kind(PREDICT, OK, INVALID, NOT_FOUND, PRECONDITION)
def mutated_tokens(rng, size):
    return mutated(of_tokens(np.int32([3, 1])).SerializeToString(), rng)


@_kind(PREDICT, OK, INVALID, NOT_FOUND, PRECONDITION)
def mutated_char_ids(rng, size):
    return mutated(of_char_ids(1, 2, 14).SerializeToString(), rng)


@_kind(PREDICT, INVALID)
def another_type(rng, size):
    request = plain()
    request.inputs["strings"].dtype = rng.choice([0, 1, 3, 8, 10, 18, 20, 21, 22, 101, 107, 9999])
    return request


@_kind(PREDICT, INVALID)
def numbers_as_sentences(rng, size):
    request = plain()
    dtype = rng.choice([np.float32, np.int64, np.complex64, np.bool_, np.float16])
    request.inputs["strings"].CopyFrom(tf.make_tensor_proto(np.ones(3, dtype)))
    return request


@_kind(PREDICT, INVALID)
def another_rank(rng, size):
    request = plain()
    request.inputs["strings"].tensor_shape.CopyFrom(
        tf.TensorShape(rng.choice([[], [2, 1], [1, 2], [1] * 100 + [2]])).as_proto()
    )
    return request


@_kind(PREDICT, OK, INVALID)
def another_shape(rng, size):
    request = plain()
    for _ in range(rng.randrange(3)):
        request.inputs["strings"].tensor_shape.dim.add(size=rng.choice(_NUMBERS))
    request.inputs["strings"].tensor_shape.dim[0].size = rng.choice(_NUMBERS)
    return request


@_kind(PREDICT, INVALID)
def another_rank_of_char_ids(rng, size):
    return of_char_ids(*rng.choice([(), (14,), (2, 14), (1, 2, 13), (1, 1, 1, 14)]))


@_kind(PREDICT, OK, INVALID)
def any_char_ids(rng, size):
    request = of_char_ids(1, 2, 14)
    array = np.array(rng.choices([*range(-2, 265), -(2**31), 2**31 - 1], k=28), np.int32)
    request.inputs["char_ids"].CopyFrom(tf.make_tensor_proto(array.reshape(1, 2, 14)))
    return request


@_kind(PREDICT, INVALID)
def lengths_that_cannot_be(rng, size):
    wrong = [[-1, 1], [4, 1], [2**31 - 1, 1], [-(2**31), 0], [1], [1, 1, 1], [], [[1, 1]], 1, [1, 2]]
    return of_tokens(np.int32(rng.choice(wrong)))


@_kind(PREDICT, INVALID)
def lengths_of_another_type(rng, size):
    return of_tokens(np.array([3, 1], rng.choice([np.int64, np.float32, np.uint8])))


@_kind(PREDICT, OK, INVALID)
def nothing(rng, size):
    shape = rng.choice([(0, 0), (0, 5), (3, 0)])
    if rng.random() < 0.3:
        return plain([])
    if rng.random() < 0.5:
        return of_char_ids(*shape, 14)
    lengths = np.zeros(shape[0], np.int32)
    return of_inputs("tokens", tokens=np.full(shape, b"", object), sequence_len=lengths)


@_kind(PREDICT, OK)
def any_bytes(rng, size):
    sentence = b"".join(rng.choices([*_BYTES, b" ", b"a"], k=rng.randrange(30)))
    return plain([sentence, rng.randbytes(rng.randrange(50))])


@_kind(PREDICT, INVALID)
def other_inputs(rng, size):
    request = plain()
    if rng.random() < 0.5:
        del request.inputs["strings"]
    for _ in range(rng.randrange(1, 20)):
        request.inputs[rng.choice(_NAMES)].int_val.append(1)
    return request


@_kind(PREDICT, INVALID)
def unknown_outputs(rng, size):
    return plain(outputs=["elmo", *rng.choices(_NAMES, k=3)])


@_kind(PREDICT, INVALID)
def the_same_output_again(rng, size):
    return plain(outputs=["elmo", "default", "elmo"] * rng.randrange(1, 1000))


@_kind(PREDICT, PRECONDITION)
def unknown_signatures(rng, size):
    return plain(signature_name=rng.choice(_NAMES))


@_kind(PREDICT, StatusCode.INTERNAL)  # TF Serving says so too
def the_signature_that_only_initializes(rng, size):
    return plain(signature_name="__saved_model_init_op")


@_kind(PREDICT, NOT_FOUND)
def unknown_models(rng, size):
    return plain(name=rng.choice(_NAMES))


@_kind(PREDICT, NOT_FOUND)
def unknown_versions(rng, size):
    return plain(version={"value": rng.choice(_NUMBERS)})


@_kind(PREDICT, INVALID)
def unknown_labels(rng, size):
    return plain(version_label=rng.choice(["", *_NAMES]))


@_kind(PREDICT, INVALID)
def no_model(rng, size):
    request = plain(name="")
    if rng.random() < 0.5:
        request.ClearField("model_spec")
    return request


@_kind(PREDICT, OK, is_large=True)
def one_long_token(rng, size):
    return plain([rng.choice([b"a", b"\xff", "\N{GRINNING FACE}".encode()]) * (size // 4), b"a"])


@_kind(PREDICT, INVALID, is_large=True)
def many_short_tokens(rng, size):
    return plain([b"a " * (size // 2)])


@_kind(PREDICT, INVALID, is_large=True)
def many_empty_sentences(rng, size):
    return plain([b""] * (size // 4))


@_kind(PREDICT, INVALID, is_large=True)
def more_values_than_the_shape_says(rng, size):
    request = plain([b""] * (size // 4))
    request.inputs["strings"].tensor_shape.dim[0].size = 1
    return request


@_kind(PREDICT, OK, is_large=True)
def white_space_alone(rng, size):
    return plain([rng.choice([b" ", b"\n", "\N{IDEOGRAPHIC SPACE}".encode()]) * (size // 3)])


@_kind(PREDICT, NOT_FOUND, is_large=True)
def a_long_model_name(rng, size):
    return plain(name="n" * size)


@_kind(PREDICT, PRECONDITION, is_large=True)
def a_long_signature_name(rng, size):
    return plain(signature_name="n" * size)


@_kind(PREDICT, INVALID, is_large=True)
def a_long_label(rng, size):
    return plain(version_label="n" * size)


@_kind(PREDICT, INVALID, is_large=True)
def a_long_output_name(rng, size):
    return plain(outputs=["n" * size])


@_kind(PREDICT, INVALID, is_large=True)
def a_long_input_name(rng, size):
    return of_inputs("tokens", **{"n" * size: 1})


@_kind(PREDICT, StatusCode.RESOURCE_EXHAUSTED, is_large=True)
def more_bytes_than_a_request_may_have(rng, size):
    return bytes(64 * 2**20 + 1)


@_kind(METADATA, INVALID)
def metadata_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@_kind(METADATA, INVALID)
def metadata_of_other_fields(rng, size):
    fields = rng.choices(_NAMES, k=rng.randrange(4))
    return get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "elmo"}, metadata_field=fields
    )


@_kind(METADATA, INVALID, is_large=True)
def metadata_of_a_long_field(rng, size):
    return get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "elmo"}, metadata_field=["n" * size]
    )


@_kind(STATUS, INVALID)
def status_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@_kind(STATUS, NOT_FOUND)
def status_of_what_is_not_there(rng, size):
    spec = {"name": "elmo", "version": {"value": rng.choice(_NUMBERS)}}
    return get_model_status_pb2.GetModelStatusRequest(
        model_spec=rng.choice([spec, {"name": rng.choice(_NAMES)}, {"name": ""}])
    )


@_kind(STATUS, NOT_FOUND, is_large=True)
def status_of_a_long_name(rng, size):
    return get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "n" * size})


@_kind(RELOAD, INVALID)
def reload_of_random_bytes(rng, size):
    return rng.randbytes(rng.randrange(100))


@_kind(RELOAD, INVALID)
def reload_of_nothing(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    if rng.random() < 0.5:
        request.config.custom_model_config.type_url = rng.choice(_NAMES)
    return request


@_kind(RELOAD, INVALID)
def reload_of_what_is_not_there(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice(["", "/no/such/folder", "/no/" + "n" * 300, "\0/no", "/no\n", "no" * 5000])
        request.config.model_config_list.config.add(
            name=rng.choice(["", "elmo", *_NAMES]), base_path=path, model_platform="tensorflow"
        )
    return request


@_kind(RELOAD, INVALID, is_large=True)
def reload_of_a_long_path(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(name="elmo", base_path="/no/" + "n" * size)
    return request


@_kind("/tensorflow.serving.PredictionService/Classify", StatusCode.UNIMPLEMENTED)
def another_method(rng, size):
    return rng.randbytes(rng.randrange(100))


@_kind("/" + "n" * 4000, StatusCode.UNIMPLEMENTED)
def another_service(rng, size):
    return rng.randbytes(rng.randrange(100))
