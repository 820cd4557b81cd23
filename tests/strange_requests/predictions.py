"""Strange requests for predictions, as protos."""

import numpy as np
import tensorflow as tf
from grpc import StatusCode
from tensorflow_serving.apis import predict_pb2

from strange_requests import Kinds, mutated

METHOD = "/tensorflow.serving.PredictionService/Predict"
OK = StatusCode.OK
INVALID = StatusCode.INVALID_ARGUMENT
NOT_FOUND = StatusCode.NOT_FOUND
PRECONDITION = StatusCode.FAILED_PRECONDITION

NUMBERS = (-(2**63), -(2**31), -1, 0, 2, 2**31 - 1, 2**63 - 1)
NAMES = (" ", "\0", "\n", "../1", "%s", "{}", "elmo\0", "ELMO", "é" * 50, "__saved_model")
_BYTES = (b"\xff", b"\xed\xa0\x80", b"\0", b"\xe2\x80", "\N{IDEOGRAPHIC SPACE}".encode(), b"")

KINDS = Kinds(lambda request: request.SerializeToString())


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


@KINDS.add(INVALID, method=METHOD)
def random_bytes(rng, size):
    return rng.randbytes(rng.randrange(300))


@KINDS.add(OK, INVALID, NOT_FOUND, PRECONDITION, method=METHOD)
def mutated_sentences(rng, size):
    return mutated(plain().SerializeToString(), rng)


@KINDS.add(OK, INVALID, NOT_FOUND, PRECONDITION, method=METHOD)
def mutated_tokens(rng, size):
    return mutated(of_tokens(np.int32([3, 1])).SerializeToString(), rng)


@KINDS.add(OK, INVALID, NOT_FOUND, PRECONDITION, method=METHOD)
def mutated_char_ids(rng, size):
    return mutated(of_char_ids(1, 2, 14).SerializeToString(), rng)


@KINDS.add(INVALID, method=METHOD)
def another_type(rng, size):
    request = plain()
    request.inputs["strings"].dtype = rng.choice([0, 1, 3, 8, 10, 18, 20, 21, 22, 101, 107, 9999])
    return request


@KINDS.add(INVALID, method=METHOD)
def numbers_as_sentences(rng, size):
    request = plain()
    dtype = rng.choice([np.float32, np.int64, np.complex64, np.bool_, np.float16])
    request.inputs["strings"].CopyFrom(tf.make_tensor_proto(np.ones(3, dtype)))
    return request


@KINDS.add(INVALID, method=METHOD)
def another_rank(rng, size):
    shape = rng.choice([[], [2, 1], [1, 2], [1] * 100 + [2]])
    request = plain([b"a bb", b"c"] if shape else [b"a bb"])
    request.inputs["strings"].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return request


@KINDS.add(INVALID, method=METHOD)
def another_rank_of_tokens(rng, size):
    shape = rng.choice([(), (2,), (1, 1, 2)])
    tokens = np.full(shape, b"a", object)
    return of_inputs("tokens", tokens=tokens, sequence_len=np.int32([1]))


@KINDS.add(OK, INVALID, method=METHOD)
def another_shape(rng, size):
    request = plain()
    for _ in range(rng.randrange(3)):
        request.inputs["strings"].tensor_shape.dim.add(size=rng.choice(NUMBERS))
    request.inputs["strings"].tensor_shape.dim[0].size = rng.choice(NUMBERS)
    return request


@KINDS.add(INVALID, method=METHOD)
def another_rank_of_char_ids(rng, size):
    return of_char_ids(*rng.choice([(), (14,), (2, 14), (1, 2, 13), (1, 1, 1, 14)]))


@KINDS.add(OK, INVALID, method=METHOD)
def any_char_ids(rng, size):
    request = of_char_ids(1, 2, 14)
    array = np.array(rng.choices([*range(-2, 265), -(2**31), 2**31 - 1], k=28), np.int32)
    request.inputs["char_ids"].CopyFrom(tf.make_tensor_proto(array.reshape(1, 2, 14)))
    return request


@KINDS.add(INVALID, method=METHOD)
def lengths_that_cannot_be(rng, size):
    numbers = [[-1, 1], [4, 1], [2**31 - 1, 1], [-(2**31), 0], [1, 2]]
    shapes = [[1], [1, 1, 1], [], [[1, 1]], 1]
    return of_tokens(np.int32(rng.choice(numbers + shapes)))


@KINDS.add(INVALID, method=METHOD)
def lengths_of_another_type(rng, size):
    return of_tokens(np.array([3, 1], rng.choice([np.int64, np.float32, np.uint8])))


@KINDS.add(OK, INVALID, method=METHOD)
def nothing(rng, size):
    shape = rng.choice([(0, 0), (0, 5), (3, 0)])
    if rng.random() < 0.3:
        return plain([])
    if rng.random() < 0.5:
        return of_char_ids(*shape, 14)
    lengths = np.zeros(shape[0], np.int32)
    return of_inputs("tokens", tokens=np.full(shape, b"", object), sequence_len=lengths)


@KINDS.add(OK, method=METHOD)
def any_bytes(rng, size):
    sentence = b"".join(rng.choices([*_BYTES, b" ", b"a"], k=rng.randrange(30)))
    return plain([sentence, rng.randbytes(rng.randrange(50))])


@KINDS.add(INVALID, method=METHOD)
def other_inputs(rng, size):
    request = plain()
    if rng.random() < 0.5:
        del request.inputs["strings"]
    for _ in range(rng.randrange(1, 20)):
        request.inputs[rng.choice(NAMES)].int_val.append(1)
    return request


@KINDS.add(INVALID, method=METHOD)
def unknown_outputs(rng, size):
    return plain(outputs=["elmo", *rng.choices(NAMES, k=3)])


@KINDS.add(INVALID, method=METHOD)
def the_same_output_again(rng, size):
    return plain(outputs=["elmo", "default", "elmo"] * rng.randrange(1, 1000))


@KINDS.add(PRECONDITION, method=METHOD)
def unknown_signatures(rng, size):
    return plain(signature_name=rng.choice(NAMES))


@KINDS.add(StatusCode.INTERNAL, method=METHOD)  # TF Serving says so too
def the_signature_that_only_initializes(rng, size):
    return plain(signature_name="__saved_model_init_op")


@KINDS.add(NOT_FOUND, method=METHOD)
def unknown_models(rng, size):
    return plain(name=rng.choice(NAMES))


@KINDS.add(NOT_FOUND, method=METHOD)
def unknown_versions(rng, size):
    return plain(version={"value": rng.choice(NUMBERS)})


@KINDS.add(INVALID, method=METHOD)
def unknown_labels(rng, size):
    return plain(version_label=rng.choice(["", *NAMES]))


@KINDS.add(INVALID, method=METHOD)
def no_model(rng, size):
    request = plain(name="")
    if rng.random() < 0.5:
        request.ClearField("model_spec")
    return request
