"""Concurrent requests: `stream`, `predict_async`, and servers shared with other users."""

import asyncio
import itertools
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from elmo_tf.saved_models.client.client import Client, ServerError

SENTENCES = ["a bb", "", "ccc", "d e f g", "h"]
OUTPUTS = ["elmo", "default", "sequence_len"]


@pytest.fixture
def shared_port(grpc_server, server):
    """The port of a server that adds another user's long sentence to each of our requests."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        real = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(request, context):
            strings = request.inputs["strings"]
            strings.string_val.append(b"x " * 50)
            strings.tensor_shape.dim[0].size += 1
            response = real.Predict(request)
            for name, tensor in response.outputs.items():
                ours = np.array(tf.make_ndarray(tensor)[:-1])
                if name == "elmo":
                    ours[:, 40:] = 7.0
                response.outputs[name].CopyFrom(tf.make_tensor_proto(ours))
                assert response.outputs[name].tensor_content
            return response

        yield grpc_server(predict, lambda request, context: real.GetModelMetadata(request))


def test_padding_from_other_users_sentences_is_cut_off(shared_port, server):
    with Client(f"127.0.0.1:{server.port}") as alone, Client(f"localhost:{shared_port}") as shared:
        for outputs in ("elmo", OUTPUTS, ["word_emb", "default"], ()):
            wanted, answer = alone.predict(SENTENCES, outputs), shared.predict(SENTENCES, outputs)
            assert list(answer) == list(wanted)
            for name, array in answer.items():
                np.testing.assert_array_equal(array, wanted[name])
        for row, wanted in zip(shared.stream(SENTENCES), alone.stream(SENTENCES), strict=True):
            np.testing.assert_array_equal(row["elmo"], wanted["elmo"])


def test_a_stream_and_an_awaited_answer_equal_predict(address):
    async def ask(client):
        return await asyncio.gather(
            *(client.predict_async(SENTENCES[start:], OUTPUTS) for start in range(4))
        )

    with Client(address, batch_size=2) as client:
        whole = client.predict(SENTENCES, OUTPUTS)
        for sentences in (SENTENCES, [sentence.split() for sentence in SENTENCES]):
            rows = list(client.stream(iter(sentences), OUTPUTS))
            assert [row["sequence_len"].tolist() for row in rows] == [2, 0, 1, 4, 1]
            for index, row in enumerate(rows):
                assert list(row) == OUTPUTS
                num_tokens = whole["sequence_len"][index]
                np.testing.assert_array_equal(row["elmo"], whole["elmo"][index, :num_tokens])
                np.testing.assert_array_equal(row["default"], whole["default"][index])
        for start, answer in enumerate(asyncio.run(ask(client))):
            for name in OUTPUTS:
                np.testing.assert_array_equal(answer[name], whole[name][start:])
        with pytest.raises(TypeError, match="not one string"):
            asyncio.run(client.predict_async("a"))
        assert list(client.stream([])) == []
        with pytest.raises(ServerError, match="has no output layers"):
            next(client.stream(["a"], "layers"))
        with pytest.raises(ValueError, match="`in_flight` must be at least 1"):
            client.stream(["a"], in_flight=0)


def test_a_stream_may_be_endless_and_is_read_lazily(address):
    taken = itertools.count()
    endless = (f"{'a ' * (number % 5)}" for number in taken)
    with Client(address, batch_size=3) as client:
        rows = client.stream(endless, in_flight=2)
        lengths = [len(row["elmo"]) for row in itertools.islice(rows, 100)]
        rows.close()
    assert lengths == [number % 5 for number in range(100)]
    assert next(taken) <= 100 + 3 * 3


def test_several_requests_are_in_flight_at_once(grpc_server, lengths):
    together = threading.Barrier(3, timeout=10)

    def predict(request, context):
        together.wait()  # Each request waits for two others.
        return lengths(request)

    with Client(f"127.0.0.1:{grpc_server(predict)}", batch_size=1) as client:
        assert len(list(client.stream(["a"] * 9, in_flight=3))) == 9


def test_closing_a_stream_cancels_its_requests_in_flight(grpc_server, lengths):
    cancelled = threading.Semaphore(0)
    another, release = threading.Event(), threading.Event()

    def predict(request, context):
        if request.inputs["strings"].string_val[0] == b"first":
            another.wait(10)  # a stream starts no more calls while its first row waits
        else:
            context.add_callback(cancelled.release)
            another.set()
            release.wait(10)
        return lengths(request)

    with Client(f"127.0.0.1:{grpc_server(predict)}", batch_size=1) as client:
        rows = client.stream(itertools.chain(["first"], itertools.repeat("next")), in_flight=3)
        assert next(rows)["elmo"].shape == (1, 1)
        assert not cancelled.acquire(timeout=0.1)
        rows.close()
        assert cancelled.acquire(timeout=5)
        release.set()


def test_cancelling_a_task_cancels_its_request(grpc_server, lengths):
    asked, cancelled = threading.Event(), threading.Event()

    def predict(request, context):
        context.add_callback(cancelled.set)
        asked.set()
        cancelled.wait(10)
        return lengths(request)

    async def cancelled_call(client):
        task = asyncio.create_task(client.predict_async(["a"]))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Client(f"127.0.0.1:{grpc_server(predict)}") as client:
        start = time.monotonic()
        asyncio.run(cancelled_call(client))
        assert cancelled.wait(5)
    assert time.monotonic() - start < 5
