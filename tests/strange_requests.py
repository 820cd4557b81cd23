"""Unusual and invalid requests, and the statuses that a server may return for each."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from random import Random
from urllib.parse import quote

import numpy as np
import tensorflow as tf
from grpc import StatusCode
from tensorflow_serving.apis import model_management_pb2, predict_pb2

PREDICT = "/tensorflow.serving.PredictionService/Predict"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
OK = StatusCode.OK
INVALID = StatusCode.INVALID_ARGUMENT
NOT_FOUND = StatusCode.NOT_FOUND
PRECONDITION = StatusCode.FAILED_PRECONDITION

_NUMBERS = (-(2**63), -(2**31), -1, 0, 2, 2**31 - 1, 2**63 - 1)
_NAMES = (" ", "\0", "\n", "../1", "%s", "{}", "elmo\0", "ELMO", "é" * 50, "__saved_model")
_BYTES = (b"\xff", b"\xed\xa0\x80", b"\0", b"\xe2\x80", "\N{IDEOGRAPHIC SPACE}".encode(), b"")
_PATHS = ("", "/no/such/folder", "/no/" + "n" * 300, "\0/no", "/no\n", "no" * 5000)
_JSON_VALUES = (
    *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 2**63, 10**300, "", "a", "\0"),
    *([], [[]], [[1], [2]], {}, {"b64": "YQ=="}, {"b64": "?"}, {"b64": None}, {"b64": "", "x": 1}),
)
_REST_PATH = "/v1/models/elmo:predict"
_TOKENS = {"tokens": [["a", "bb"], ["c", ""]], "sequence_len": [2, 1]}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of strange request.

    Attributes:
        name: of the kind.
        make: returns a request as bytes, from a random generator and the size of large requests.
        statuses: the allowed statuses of the answer. `None` is a closed connection.
        method: the gRPC method; `None` for REST.
        is_large: whether requests have about that size.
    """

    name: str
    make: Callable[[Random, int], bytes]
    statuses: tuple
    method: str | None
    is_large: bool


KINDS: list[Kind] = []


def kind(*statuses, method=None, is_large=False):
    """Decorates a function that makes requests; adds it to `KINDS`."""

    def add(make):
        KINDS.append(Kind(make.__name__, make, statuses, method, is_large))
        return make

    return add


def mixed(num_requests: int, num_large: int, rng: Random) -> Iterator[Kind]:
    """Yields kinds in random order; each half has all kinds.

    Args:
        num_requests: of all kinds together.
        num_large: of each large kind, an even number.
        rng: selects the small kinds and the order.
    """
    large = [kind for kind in KINDS if kind.is_large]
    small = [kind for kind in KINDS if not kind.is_large]
    for _ in range(2):
        chosen = small + large * (num_large // 2)
        chosen += rng.choices(small, k=num_requests // 2 - len(chosen))
        rng.shuffle(chosen)
        yield from chosen


def mutated(content: bytes, rng: Random) -> bytes:
    """Flips some bits, and sometimes cuts out, repeats or moves a piece."""
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    start, end = sorted(rng.choices(range(len(changed)), k=2))
    piece = changed[start:end]
    change = rng.choice(["none", "cut", "double", "move"])
    if change in ("cut", "move"):
        del changed[start:end]
    if change in ("double", "move"):
        at = rng.randrange(len(changed) + 1)
        changed[at:at] = piece
    return bytes(changed)


def plain(sentences=(b"a bb", b"c"), outputs=("elmo", "sequence_len"), **spec):
    """An ordinary prediction request."""
    return predict_pb2.PredictRequest(
        model_spec={"name": "elmo"} | spec,
        inputs={"strings": tf.make_tensor_proto(np.array(sentences, object), tf.string)},
        output_filter=outputs,
    )


def of_inputs(signature, **inputs):
    """A prediction request of another signature."""
    request = plain(signature_name=signature)
    del request.inputs["strings"]
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return request


@kind(INVALID, method=PREDICT)
def random_protos(rng, size):
    return rng.randbytes(rng.randrange(300))


@kind(OK, INVALID, NOT_FOUND, PRECONDITION, method=PREDICT)
def mutated_protos(rng, size):
    tokens = np.array([[b"a", b"bb", b"c"], [b"dd", b"", b""]], object)
    requests = (
        plain(),
        of_inputs("tokens", tokens=tokens, sequence_len=np.int32([3, 1])),
        of_inputs("char_ids", char_ids=np.ones((1, 2, 14), np.int32)),
    )
    return mutated(rng.choice(requests).SerializeToString(), rng)


@kind(INVALID, NOT_FOUND, PRECONDITION, method=PREDICT)
def strange_names(rng, size):
    name = rng.choice(_NAMES)
    requests = (
        plain(name=name),
        plain(version={"value": rng.choice(_NUMBERS)}),
        plain(version_label=name),
        plain(signature_name=name),
        plain(outputs=["elmo", name]),
        of_inputs("tokens", **{name: 1}),
    )
    return rng.choice(requests).SerializeToString()


@kind(OK, INVALID, method=PREDICT)
def strange_shapes(rng, size):
    request = plain()
    for _ in range(rng.randrange(3)):
        request.inputs["strings"].tensor_shape.dim.add(size=rng.choice(_NUMBERS))
    request.inputs["strings"].tensor_shape.dim[0].size = rng.choice(_NUMBERS)
    return request.SerializeToString()


@kind(OK, method=PREDICT)
def strange_bytes(rng, size):
    sentence = b"".join(rng.choices([*_BYTES, b" ", b"a"], k=rng.randrange(30)))
    return plain([sentence, rng.randbytes(rng.randrange(50))]).SerializeToString()


@kind(INVALID, method=RELOAD)
def strange_configurations(rng, size):
    request = model_management_pb2.ReloadConfigRequest()
    for _ in range(rng.randrange(1, 4)):
        name, path = rng.choice(["", "elmo", *_NAMES]), rng.choice(_PATHS)
        request.config.model_config_list.config.add(name=name, base_path=path)
    return request.SerializeToString()


@kind(OK, method=PREDICT, is_large=True)
def one_long_token(rng, size):
    token = rng.choice([b"a", b"\xff", "\N{GRINNING FACE}".encode()]) * (size // 4)
    return plain([token, b"a"]).SerializeToString()


@kind(OK, method=PREDICT, is_large=True)
def white_space(rng, size):
    space = rng.choice([b" ", b"\n", "\N{IDEOGRAPHIC SPACE}".encode()])
    return plain([space * (size // 3)]).SerializeToString()


@kind(INVALID, method=PREDICT, is_large=True)
def many_tokens_or_sentences(rng, size):
    sentences = rng.choice([[b"a " * (size // 2)], [b""] * (size // 4)])
    return plain(sentences).SerializeToString()


@kind(INVALID, NOT_FOUND, PRECONDITION, method=PREDICT, is_large=True)
def long_names(rng, size):
    name = "n" * size
    key = rng.choice(["name", "signature_name", "version_label"])
    requests = (plain(**{key: name}), plain(outputs=[name]), of_inputs("tokens", **{name: 1}))
    return rng.choice(requests).SerializeToString()


def posted(body, path=_REST_PATH, **headers):
    return sent("POST", path, body, **{"Content-Length": len(body), **headers})


def sent(method, path, body=b"", version="HTTP/1.1", **headers):
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"{method} {path} {version}", *lines, "", ""]).encode("latin-1") + body


def posted_json(**document):
    return posted(json.dumps(document).encode())


@kind(400, 505, None)
def random_http(rng, size):
    return rng.randbytes(rng.randrange(300)) + b"\r\n\r\n"


@kind(200, 400)
def mutated_json(rng, size):
    body = {"signature_name": "tokens", "inputs": _TOKENS}
    return posted(mutated(json.dumps(body).encode(), rng))


@kind(400)
def deep_json(rng, size):
    depth = rng.choice([rng.randrange(1, 1100), 10**5])
    inner = rng.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    key = rng.choice([b"inputs", b"instances", b"signature_name"])
    start, end = rng.choice([(b"", b""), (b'{"%s":' % key, b"}"), (b'{"inputs":["a",', b"]}")])
    return posted(start + inner + end)


@kind(200, 400)
def strange_values(rng, size):
    value = rng.choice(_JSON_VALUES)
    if rng.random() < 0.5:
        inputs = {**_TOKENS, rng.choice(list(_TOKENS)): value}
        return posted_json(signature_name="tokens", inputs=inputs)
    value = rng.choice([value, [value], {"strings": value}])
    return posted_json(**{rng.choice(["inputs", "instances"]): value})


@kind(400, 404)
def strange_paths(rng, size):
    paths = ["*", "//x", "http://[", "/v1/models/\xff:predict", "/v1/models/%00:predict", "/\0"]
    paths += ["/v1/models/elmo/labels/x:predict", "/v1/models/elmo/versions/9:predict", "/:?#"]
    path = rng.choice([*paths, "/v1/models/" + quote(rng.randbytes(9)) + ":predict"])
    return posted(b'{"inputs":["a"]}', path) if rng.random() < 0.5 else sent("GET", path)


@kind(200, 400, 414, 431, 501, 505, None)
def strange_heads(rng, size):
    head = posted(b"")
    heads = (
        head[: rng.randrange(len(head))],
        sent("GET", "/" + "n" * rng.choice([5000, 100_000])),
        sent(rng.choice(["PUT", "HEAD", "CONNECT", "get", "__init__", "X" * 999]), "/"),
        sent("GET", "/", version=rng.choice(["HTTP/2.0", "HTTP/1", "HTTP/-1.1", "GOPHER"])),
        sent("GET", "/", X="n" * rng.choice([9000, 100_000])),
        sent("GET", "/", **{f"X{number}": "" for number in range(rng.choice([50, 150, 3000]))}),
    )
    return rng.choice(heads)


@kind(400, None)
def strange_lengths(rng, size):
    body = b'{"inputs":["a"]}'
    lengths = ["-1", "+5", "1e3", "0x10", "", "\xb2", "9" * 18, "9" * 5000, "many", "5, 5"]
    lengths += [rng.randrange(len(body)), len(body) + rng.choice([1, 1000, 60_000_000])]
    if rng.random() < 0.1:
        chunks = b"5\r\nhello\r\n0\r\n\r\n"
        return sent("POST", _REST_PATH, chunks, **{"Transfer-Encoding": "chunked"})
    return posted(body, **{"Content-Length": rng.choice(lengths)})


@kind(200, is_large=True)
def one_long_string(rng, size):
    return posted_json(inputs=[rng.choice(["a", "é", "\0"]) * (size // 6)])


@kind(400, is_large=True)
def many_values(rng, size):
    bodies = (
        b'{"instances":[' + b'"",' * (size // 3) + b'""]}',
        b'{"inputs":[' + b"1," * (size // 2) + b"1]}",
        b'{"instances":["' + b"a " * (size // 2) + b'"]}',
    )
    return posted(rng.choice(bodies))


@kind(400, is_large=True)
def a_long_signature_name(rng, size):
    return posted_json(inputs=["a"], signature_name="n" * size)
