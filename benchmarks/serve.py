"""Measures throughput, latency and correctness of `elmo-tf serve`.

    python benchmarks/serve.py --corpus 'text/*.txt'

A biLM with random weights is exported and served by two processes, with and without batching.
Clients with separate connections request the vectors of one sentence after another over gRPC,
alternately from the two servers. Every answer is compared with the exported model's vectors of that
sentence alone; wrong and missing answers are counted. Prints one JSON object for each round.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np

_SERVERS = {"batching": [], "no-batching": ["--max-batch-size=1"]}  # options of each
_DISTINCT = 512  # sentences
_TOLERANCE = 1e-4  # batches add up in another order


def main() -> None:
    """Exports a model, starts the servers and measures all rounds."""
    arguments = _parse()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        exported = _export(arguments, Path(folder))
        questions = _questions(arguments, exported)
        servers = {
            name: stack.enter_context(_server(exported, _SERVERS[name]))
            for name in arguments.servers
        }
        for server in servers.values():
            _ask(server, questions, 2, 2.0)  # warm-up
        rounds = range(arguments.rounds)
        for num_clients, _, name in itertools.product(arguments.clients, rounds, servers):
            result = _ask(servers[name], questions, num_clients, arguments.seconds)
            print(json.dumps({"server": name, "clients": num_clients, **result}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--preset", default="small", help="size of the biLM (default: small)")
    parser.add_argument(
        "--servers", nargs="+", default=list(_SERVERS), choices=_SERVERS, help="default: both"
    )
    for name, kind, default, help in (
        ("rounds", int, 3, "rounds of each server"),
        ("seconds", float, 10, "length of a round"),
    ):
        help = f"{help} (default: {default})"
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=help)
    parser.add_argument(
        "--clients", nargs="+", type=int, default=[1, 8, 64], metavar="N", help="default: 1 8 64"
    )
    return parser.parse_args()


def _export(arguments: argparse.Namespace, folder: Path) -> Path:
    from elmo_tf import BiLM, BiLMConfig
    from elmo_tf.saved_models import export

    bilm = BiLM(BiLMConfig.preset(arguments.preset))
    export(bilm, folder / "exported")
    return folder / "exported"


def _questions(arguments: argparse.Namespace, exported: Path) -> list[tuple[bytes, np.ndarray]]:
    """Serialized requests and the expected `default` vector of each."""
    import tensorflow as tf
    from tensorflow_serving.apis import model_pb2

    from elmo_tf.saved_models.messages import predict_request
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.reading import text_files

    sentences = [" ".join(tokens) for tokens in read_sentences(text_files(arguments.corpus))]
    random.Random(0).shuffle(sentences)
    model = tf.saved_model.load(os.fspath(exported / "1"))
    questions = []
    for sentence in sentences[:_DISTINCT]:
        request = predict_request(model_pb2.ModelSpec(name="elmo"), [sentence], ["default", "elmo"])
        expected = model.signatures["default"](tf.constant([sentence]))["default"]
        questions.append((request.SerializeToString(), expected.numpy()[0]))
    return questions


class _Server:
    """A running `elmo-tf serve`."""

    def __init__(self, process: subprocess.Popen, port: int):
        self.address = f"127.0.0.1:{port}"
        self._process = process

    def memory(self) -> float:
        """Resident memory in MiB (Linux)."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def _server(exported: Path, options: list[str]) -> Iterator[_Server]:
    command = [sys.executable, "-m", "elmo_tf.cli", "serve", str(exported), "--port=0"]
    with subprocess.Popen(
        [*command, "--rest-port=0", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield _Server(process, json.loads(process.stdout.readline())["port"])
        finally:
            process.terminate()


def _ask(
    server: _Server, questions: list[tuple[bytes, np.ndarray]], num_clients: int, seconds: float
) -> dict:
    """Sends requests from all clients for some seconds. Returns the rate, latencies and counts."""
    answers: list[tuple[float, str]] = []  # seconds and result
    numbers = itertools.count()
    begun = time.monotonic()

    def be_client(client: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(server.address, options) as channel:
            predict = channel.unary_unary(
                "/tensorflow.serving.PredictionService/Predict", _registered_method=True
            )
            while time.monotonic() < begun + seconds:
                question = questions[(next(numbers) * 7 + client) % len(questions)]
                answers.append(_ask_once(predict, *question))

    threads = [threading.Thread(target=be_client, args=(client,)) for client in range(num_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    results = collections.Counter(result for _, result in answers)
    answered = results["right"] + results["wrong"]
    if not answered:
        raise SystemExit("The server did not answer.")
    times = [seconds for seconds, result in answers if result != "failed"]
    percentiles = zip(("p50_ms", "p99_ms"), 1000 * np.percentile(times, [50, 99]), strict=True)
    return {
        "requests_per_second": round(answered / took, 1),
        **{name: round(value, 2) for name, value in percentiles},
        **{result: results[result] for result in ("right", "wrong", "failed")},
        "memory_mib": round(server.memory()),
    }


def _ask_once(
    predict: grpc.UnaryUnaryMultiCallable, request: bytes, expected: np.ndarray
) -> tuple[float, str]:
    """The seconds of a request, and its result."""
    from tensorflow_serving.apis import predict_pb2

    begun = time.perf_counter()
    try:
        content = predict(request, timeout=120)
    except grpc.RpcError:
        return time.perf_counter() - begun, "failed"
    seconds = time.perf_counter() - begun
    answer = predict_pb2.PredictResponse.FromString(content).outputs["default"].float_val
    is_right = len(answer) == len(expected) and np.allclose(answer, expected, 0, _TOLERANCE)
    return seconds, "right" if is_right else "wrong"


if __name__ == "__main__":
    main()
