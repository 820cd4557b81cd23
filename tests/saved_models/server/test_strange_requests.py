"""Strange requests are refused; the server keeps running and does not leak memory."""

import json
import os
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

from serving_requests import predict_request, send

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

    def assert_http(self, body, allowed):
        """Sends bytes as the body of a prediction request and checks the status of the answer."""
        status, _, text = send(self, "POST", "/v1/models/elmo:predict", body)
        assert status in allowed, body[:300]
        if status >= 400:
            assert list(json.loads(text)) == ["error"]

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


def as_json(document):
    return json.dumps(document).encode()


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
    (mutated(as_json({"signature_name": "tokens", "inputs": TOKENS})), {200, 400}),
    (st.integers(1, 10**5).map(lambda depth: b'{"inputs":' + b"[" * depth), {400}),
    (JSON_VALUES.map(lambda value: as_json({"inputs": value})), {200, 400}),
    (JSON_VALUES.map(lambda value: as_json({"instances": [value]})), {200, 400}),
    (
        st.builds(
            lambda name, value: as_json(
                {"signature_name": "tokens", "inputs": {**TOKENS, name: value}}
            ),
            st.sampled_from(list(TOKENS)),
            JSON_VALUES,
        ),
        {200, 400},
    ),
]
SIZE = 5_000_000
LARGE_PROTOS = [
    (plain([b"\xff" * (SIZE // 4), b"a"]), {OK}),
    (plain([b"a " * (SIZE // 2)]), {INVALID}),
    (plain([b""] * (SIZE // 4)), {INVALID}),
    (plain(name="n" * SIZE), {NOT_FOUND}),
]
LARGE_HTTP = [
    (as_json({"inputs": ["é" * (SIZE // 6)]}), {200}),
    (b'{"instances":[' + b'"",' * (SIZE // 3) + b'""]}', {400}),
]


@pytest.mark.more
def test_strange_requests_are_refused_and_do_not_leak_memory(server):
    kinds = [
        *((server.assert_grpc, *kind) for kind in PROTOS),
        *((server.assert_http, *kind) for kind in HTTP),
    ]

    @settings(
        max_examples=200,
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
        for content, allowed in LARGE_PROTOS * 4:
            server.assert_grpc(content, allowed)
        for content, allowed in LARGE_HTTP * 4:
            server.assert_http(content, allowed)
        np.testing.assert_allclose(server.vectors(), expected, atol=1e-5)
        time.sleep(1)  # the last requests may still be in memory
        memory.append(server.memory())
    # In MiB. A leak of the large requests would be 300; how much freed memory malloc keeps varies.
    assert memory[1] < memory[0] + 100
