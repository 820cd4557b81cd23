"""Requests for predictions that are as large as they may be, or larger."""

from grpc import StatusCode

from strange_requests import Kinds
from strange_requests.predictions import METHOD, of_inputs, plain

OK = StatusCode.OK
INVALID = StatusCode.INVALID_ARGUMENT

KINDS = Kinds(lambda request: request.SerializeToString())


@KINDS.add(OK, method=METHOD, is_large=True)
def one_long_token(rng, size):
    return plain([rng.choice([b"a", b"\xff", "\N{GRINNING FACE}".encode()]) * (size // 4), b"a"])


@KINDS.add(INVALID, method=METHOD, is_large=True)
def many_short_tokens(rng, size):
    return plain([b"a " * (size // 2)])


@KINDS.add(INVALID, method=METHOD, is_large=True)
def many_empty_sentences(rng, size):
    return plain([b""] * (size // 4))


@KINDS.add(INVALID, method=METHOD, is_large=True)
def more_values_than_the_shape_says(rng, size):
    request = plain([b""] * (size // 4))
    request.inputs["strings"].tensor_shape.dim[0].size = 1
    return request


@KINDS.add(OK, method=METHOD, is_large=True)
def white_space_alone(rng, size):
    return plain([rng.choice([b" ", b"\n", "\N{IDEOGRAPHIC SPACE}".encode()]) * (size // 3)])


@KINDS.add(StatusCode.NOT_FOUND, method=METHOD, is_large=True)
def a_long_model_name(rng, size):
    return plain(name="n" * size)


@KINDS.add(StatusCode.FAILED_PRECONDITION, method=METHOD, is_large=True)
def a_long_signature_name(rng, size):
    return plain(signature_name="n" * size)


@KINDS.add(INVALID, method=METHOD, is_large=True)
def a_long_label(rng, size):
    return plain(version_label="n" * size)


@KINDS.add(INVALID, method=METHOD, is_large=True)
def a_long_output_name(rng, size):
    return plain(outputs=["n" * size])


@KINDS.add(INVALID, method=METHOD, is_large=True)
def a_long_input_name(rng, size):
    return of_inputs("tokens", **{"n" * size: 1})


@KINDS.add(StatusCode.RESOURCE_EXHAUSTED, method=METHOD, is_large=True)
def more_bytes_than_a_request_may_have(rng, size):
    return bytes(64 * 2**20 + 1)
