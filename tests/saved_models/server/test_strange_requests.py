"""Strange requests are refused; the server keeps running and does not leak memory."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc import StatusCode
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import predict_pb2

from serving_requests import predict_request

PREDICT = "/tensorflow.serving.PredictionService/Predict"
OK, INVALID, NOT_FOUND = StatusCode.OK, StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND
TOKENS = {"tokens": [["a", "bb"], ["c", ""]], "sequence_len": [2, 1]}
NUMBERS = st.sampled_from((-(2**63), -(2**31), -1, 0, 2, 2**31 - 1, 2**63 - 1))
JSON_VALUES = st.sampled_from(
    [
        *(None, True, 0, -1, 1e308, float("nan"), float("inf"), 2**63, 10**300, "", "a", "\0"),
        *([], [[]], [[1], [2]], {}, {"b64": "YQ=="}, {"b64": "?"}, {"b64": None}),
    ]
)
PATHS = st.sampled_from(
    [
        *("*", "//x", "http://[", "/v1/models/\xff:predict", "/v1/models/%00:predict", "/\0"),
        *("/v1/models/elmo/versions/9:predict", "/:?#", "/%ff%fe", "/../a"),
        f"/v1/models/elmo/{'9' * 5000}/metadata",
    ]
)


class Server(NamedTuple):
    """A server in a separate process."""

    channel: grpc.Channel
    rest_port: int
    pid: int

    def memory(self):
        """Returns the memory of the process in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def assert_grpc(self, content, allowed):
        """Sends bytes as a prediction request and checks the status of the answer."""
        status = self.channel.unary_unary(PREDICT).future(content, timeout=60).code()
        assert status in allowed, content[:300]

    def assert_http(self, content, allowed):
        """Sends bytes as HTTP and checks the status of the answer."""
        with socket.create_connection(("127.0.0.1", self.rest_port), timeout=60) as connection:
            with contextlib.suppress(OSError):  # the server may close before it has read everything
                connection.sendall(content)
            response = http.client.HTTPResponse(connection)
            response.begin()
            body = response.read()
        assert response.status in allowed, content[:300]
        if response.status >= 400:
            is_json = response.getheader("Content-Type") == "application/json"
            # uvicorn answers malformed HTTP as plain text.
            assert list(json.loads(body)) == ["error"] if is_json else response.status == 400

    def vectors(self):
        """Returns the answer to an ordinary request."""
        answer = self.channel.unary_unary(PREDICT)(plain(), timeout=60)
        return tf.make_ndarray(predict_pb2.PredictResponse.FromString(answer).outputs["elmo"])


@pytest.fixture(scope="module")
def server(exported_bilm):
    command = [sys.executable, "-m", "elmo_tf.cli", "serve", str(Path(exported_bilm).parent)]
    # Large blocks are freed at once, so that only memory in use is measured.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    with subprocess.Popen(
        [*command, "--port=0", "--rest-port=0", "--max-request-mb=64"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as process:
        ports = json.loads(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{ports['port']}") as channel:
            yield Server(channel, ports["rest_port"], process.pid)
        process.kill()


def plain(sentences=(b"a bb", b"c"), dims=None, **spec):
    """An ordinary prediction request, or one with other sizes in its shape."""
    strings = tf.make_tensor_proto(np.array(sentences, object), tf.string)
    if dims is not None:
        strings.tensor_shape.CopyFrom(type(strings.tensor_shape)(dim=[{"size": n} for n in dims]))
    outputs = "elmo", "sequence_len"
    return predict_request({"strings": strings}, outputs, **spec).SerializeToString()


def of_inputs(signature, **inputs):
    protos = {name: tf.make_tensor_proto(array) for name, array in inputs.items()}
    return predict_request(protos, signature=signature).SerializeToString()


def posted(body, path="/v1/models/elmo:predict"):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def posted_json(document):
    return posted(json.dumps(document).encode())


@st.composite
def mutated(draw, *contents):
    """Flips some bits, and cuts out, keeps or repeats a piece."""
    content = bytearray(draw(st.sampled_from(contents)))
    place = st.integers(0, len(content) - 1)
    for at, bit in draw(st.lists(st.tuples(place, st.integers(0, 7)), min_size=1, max_size=5)):
        content[at] ^= 1 << bit
    start, end = sorted(draw(st.tuples(place, place)))
    return bytes(content[:start] + content[start:end] * draw(st.integers(0, 2)) + content[end:])


# Strategies and the allowed statuses.
PROTOS = [
    (st.binary(max_size=300), {OK, INVALID}),
    (
        mutated(
            plain(),
            of_inputs("tokens", tokens=[[b"a", b"bb"], [b"dd", b""]], sequence_len=[2, 1]),
            of_inputs("char_ids", char_ids=np.ones((1, 2, 14), np.int32)),
        ),
        {OK, INVALID, NOT_FOUND, StatusCode.FAILED_PRECONDITION},
    ),
    (st.lists(NUMBERS, max_size=3).map(lambda dims: plain(dims=dims)), {OK, INVALID}),
    (st.binary(max_size=99).map(lambda text: plain([text])), {OK}),
]
HTTP = [
    (
        mutated(json.dumps({"signature_name": "tokens", "inputs": TOKENS}).encode()).map(posted),
        {200, 400},
    ),
    (st.integers(1, 10**5).map(lambda depth: posted(b'{"inputs":' + b"[" * depth)), {400}),
    (JSON_VALUES.map(lambda value: posted_json({"inputs": value})), {200, 400}),
    (JSON_VALUES.map(lambda value: posted_json({"instances": [value]})), {200, 400}),
    (
        st.builds(
            lambda name, value: posted_json(
                {"signature_name": "tokens", "inputs": {**TOKENS, name: value}}
            ),
            st.sampled_from(list(TOKENS)),
            JSON_VALUES,
        ),
        {200, 400},
    ),
    (PATHS.map(lambda path: posted(b"{}", path)), {400, 404, 405}),
]
LARGE_PROTOS = [
    (lambda size: plain([b"\xff" * (size // 4), b"a"]), {OK}),
    (lambda size: plain([b"a " * (size // 2)]), {INVALID}),
    (lambda size: plain([b""] * (size // 4)), {INVALID}),
    (lambda size: plain(name="n" * size), {NOT_FOUND}),
]
LARGE_HTTP = [
    (lambda size: posted_json({"inputs": ["é" * (size // 6)]}), {200}),
    (lambda size: posted(b'{"instances":[' + b'"",' * (size // 3) + b'""]}'), {400}),
]


# `max_growth` is in MiB. How much freed memory malloc keeps varies; a leak of the large requests of
# one half would be 1.7 GiB.
@pytest.mark.parametrize(
    ("num_requests", "num_large", "size", "max_growth"),
    [(400, 1, 10**6, 100), pytest.param(10_000, 2, 50 * 10**6, 300, marks=pytest.mark.slow)],
)
@pytest.mark.more
def test_strange_requests_are_refused_and_do_not_leak_memory(
    server, num_requests, num_large, size, max_growth
):
    kinds = [
        *((server.assert_grpc, *kind) for kind in PROTOS),
        *((server.assert_http, *kind) for kind in HTTP),
    ]

    @settings(
        max_examples=num_requests // 2,
        deadline=None,
        derandomize=True,  # both halves are the same
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), kind[1])))
    def send(call):
        (function, _, allowed), content = call
        function(content, allowed)

    expected, memory = server.vectors(), []
    for _ in range(2):
        send()
        for make, allowed in LARGE_PROTOS * num_large:
            server.assert_grpc(make(size), allowed)
        for make, allowed in LARGE_HTTP * num_large:
            server.assert_http(make(size), allowed)
        np.testing.assert_allclose(server.vectors(), expected, atol=1e-5)
        time.sleep(1)  # the last requests may still be in memory
        memory.append(server.memory())
    assert memory[1] < memory[0] + max_growth
