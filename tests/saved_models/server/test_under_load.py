"""What happens to requests while versions change and servers end."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from elmo_tf.saved_models.server.server import serve
from running_server import running


def request_of(*sentences):
    return predict_pb2.PredictRequest(
        model_spec={"name": "elmo"},
        inputs={"strings": tf.make_tensor_proto(sentences)},
        output_filter=["elmo"],
    )


class Load:
    """Clients that ask one request after another, until they are told to stop.

    Attributes:
        failures: of each request that failed: when it was sent, and its error.
        num_answers: requests that were answered rightly.
    """

    def __init__(self, port, num_clients, check=lambda response: None):
        self.failures = []
        self.num_answers = 0
        self._check = check
        self._port = port
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(num_clients)
        self._clients = [self._pool.submit(self._be_client) for _ in range(num_clients)]

    def stop(self):
        self._stop.set()
        self.join()

    def join(self):
        self.num_answers = sum(client.result() for client in self._clients)
        self._pool.shutdown()

    def _be_client(self):
        count = 0
        with grpc.insecure_channel(
            f"127.0.0.1:{self._port}", [("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self._stop.is_set():
                sent = time.monotonic()
                try:
                    response = stub.Predict(request_of("a bb"), timeout=60)
                except grpc.RpcError as error:
                    self.failures.append((sent, error))
                    return count
                self._check(response)
                count += 1
        return count


def check_version(response):
    """Odd versions are of scale 10, even ones of scale 100."""
    scale = 10 if response.model_spec.version.value % 2 else 100
    assert response.outputs["elmo"].float_val[0] == scale


@pytest.mark.more
@pytest.mark.parametrize("num_swaps", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_no_request_fails_while_versions_are_swapped(model_directory, tmp_path, num_swaps):
    shutil.copytree(model_directory / "1", tmp_path / "1")
    with serve(tmp_path, port=0, rest_port=None, poll_seconds=None) as server:
        load = Load(server.port, 8, check_version)
        for version in range(2, num_swaps + 2):
            shutil.copytree(model_directory / str(2 - version % 2), tmp_path / "next")
            (tmp_path / "next").rename(tmp_path / str(version))
            server.refresh()
            shutil.rmtree(tmp_path / str(version - 1))
        load.stop()
    assert not load.failures
    assert load.num_answers > num_swaps


@pytest.mark.more
def test_term_under_load_answers_every_request_that_was_accepted(model_directory):
    # Batches wait, so that at any time many requests are under way.
    with running(model_directory, "--batch-timeout-micros=1000000") as server:
        load = Load(server.port, 32)
        time.sleep(3.5)
        stopped = time.monotonic()
        server.terminate()
        load.join()
        assert server.result() == 0
    assert load.num_answers >= 32
    for sent, error in load.failures:
        # Refused at the door: what had come in by then was answered.
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert sent > stopped - 0.25
