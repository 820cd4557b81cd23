"""Servers that are unavailable for some time, too slow or not model servers."""

import socket
import threading
import time

import grpc
import numpy as np
import pytest

from elmo_tf.saved_models.client import Client
from serving_requests import assert_refused, free_port


@pytest.fixture
def start_server(grpc_server, lengths):
    """Starts a server whose predictions take a time, and fail a number of times with a code.

    Returns its port and the list of calls.
    """

    def start(code="OK", times=0, seconds=0.0, port=0):
        calls = []

        def predict(request, context):
            calls.append(request)
            time.sleep(seconds)
            if len(calls) <= times:
                context.abort(grpc.StatusCode[code], "not now")
            return lengths(request)

        return grpc_server(predict, port=port), calls

    return start


@pytest.mark.parametrize(
    ("code", "times", "retries", "num_calls"),
    [
        ("UNAVAILABLE", 2, 4, 3),
        ("RESOURCE_EXHAUSTED", 2, 4, 1),
        ("INTERNAL", 1, 4, 1),
        ("UNAVAILABLE", 99, 0, 1),
        ("UNAVAILABLE", 99, 1, 2),
    ],
)
def test_requests_to_an_unavailable_server_are_retried(
    start_server, code, times, retries, num_calls
):
    port, calls = start_server(code, times)
    with Client(f"127.0.0.1:{port}", retries=retries) as client:
        if num_calls > times:  # large requests are retried, too
            assert client.predict(["a" * 5_000_000])["elmo"].tolist() == [[[1.0]]]
        else:
            assert_refused(grpc.StatusCode[code], f"{code}: not now", client.predict, ["a"])
    assert len(calls) == num_calls


def test_an_answer_above_grpcs_default_limit_is_received(grpc_server, response):
    vectors = np.random.default_rng(0).random((1, 700, 2048), np.float32)
    with Client(f"127.0.0.1:{grpc_server(lambda *request: response(elmo=vectors))}") as client:
        np.testing.assert_array_equal(client.predict(["a"])["elmo"], vectors)


def test_a_server_that_starts_during_the_request_is_reached(start_server):
    port = free_port()
    timer = threading.Timer(0.3, start_server, kwargs={"port": port})
    timer.start()
    with Client(f"127.0.0.1:{port}") as client:
        assert client.predict(["a"])["elmo"].tolist() == [[[1.0]]]
    timer.join()


def test_an_unreachable_server_is_unavailable(server):
    code = grpc.StatusCode.UNAVAILABLE
    address = f"127.0.0.1:{free_port()}"
    message = f"UNAVAILABLE: Cannot reach a model server at {address}: .*refused.* Is it running"
    with Client(address, retries=1) as client:
        assert_refused(code, message, client.predict, ["a"])
    with Client(f"127.0.0.1:{server.rest_port}", retries=0) as client:
        assert_refused(code, "and is this its gRPC port", client.predict, ["a"])


def test_the_timeout_applies_to_all_requests_together(start_server):
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    port, _ = start_server(seconds=0.1)
    with Client(f"127.0.0.1:{port}", timeout=0.5, batch_size=1) as client:
        client.predict(["a"])
        start = time.monotonic()
        message = r"did not answer within 0\.5 s\. Send fewer sentences"
        assert_refused(code, message, client.predict, ["a"] * 80)
    assert time.monotonic() - start < 1.5
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.1) as client,
    ):
        assert_refused(code, r"did not answer within 0\.1 s", client.predict, ["a"])


def test_answers_are_returned_unchanged_without_metadata(grpc_server, lengths):
    with Client(f"127.0.0.1:{grpc_server(lengths)}", batch_size=1) as client:
        answer = client.predict(["a", "b c"])
    np.testing.assert_array_equal(answer["elmo"], [[[1], [0]], [[1], [1]]])


def test_several_requests_are_in_flight_and_cancelled_after_an_error(grpc_server, lengths):
    together, cancelled = threading.Barrier(4, timeout=10), threading.Semaphore(0)

    def predict(request, context):
        number = int(request.inputs["strings"].string_val[0])
        together.wait()  # each request waits for three others
        if number == 4:
            context.abort(grpc.StatusCode.INTERNAL, "the fifth fails")
        if number > 4:
            context.add_callback(cancelled.release)
            time.sleep(0.5)
        return lengths(request)

    with Client(f"127.0.0.1:{grpc_server(predict)}", batch_size=1) as client:
        assert client.predict(map(str, range(4)))["elmo"].shape == (4, 1, 1)
        code = grpc.StatusCode.INTERNAL
        assert_refused(code, "the fifth fails", client.predict, map(str, [0, 1, 2, 3, 4, 5, 6, 7]))
    for _ in range(3):
        assert cancelled.acquire(timeout=5)


def test_grpcs_addresses_are_encrypted(start_server):
    port, calls = start_server()
    with Client(f"grpcs://localhost:{port}", retries=0) as client:
        assert_refused(grpc.StatusCode.UNAVAILABLE, "SSL|TLS|ssl", client.predict, ["a"])
    assert not calls
