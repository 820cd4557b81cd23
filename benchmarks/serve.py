"""Measures throughput, latency and correctness of `elmo-tf serve`.

    python benchmarks/serve.py --corpus 'text/*.txt'

A biLM with random weights is exported and served by two processes, with and without batching.
Clients with separate connections request the vectors of one sentence after another over gRPC,
alternately from the two servers. Every answer is compared with the exported model's vectors of that
sentence alone; wrong and missing answers are counted.

With --soak, only the server with batching runs, and its memory is printed every minute.
"""

import argparse
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

_SERVERS = {"batching": [], "no-batching": ["--no-batching"]}  # options of each
_DISTINCT = 512  # sentences
_TOLERANCE = 1e-4  # batches add up in another order


def main() -> None:
    """Prints one JSON object for each number of clients and server, or minute of a soak."""
    arguments = _parse()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        exported = _export(arguments, Path(folder))
        questions = _questions(arguments, exported)
        names = ["batching"] if arguments.soak else arguments.servers
        servers = {name: stack.enter_context(_server(exported, _SERVERS[name])) for name in names}
        for server in servers.values():
            _ask(server, questions, 2, 0, 2.0)  # warm-up
        if arguments.soak:
            _soak(servers["batching"], questions, arguments)
            return
        for num_clients in arguments.clients:
            rounds = {name: [] for name in servers}
            for _, (name, server) in itertools.product(range(arguments.rounds), servers.items()):
                rounds[name].append(
                    _ask(server, questions, num_clients, arguments.requests, arguments.seconds)
                )
            for name, results in rounds.items():
                print(json.dumps(_summary(name, num_clients, results)), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument(
        "--preset",
        default="small",
        choices=("tiny", "small", "medium", "original"),
        help="size of the biLM (default: small)",
    )
    parser.add_argument(
        "--cache-tokens",
        type=int,
        default=50_000,
        metavar="N",
        help="distinct tokens whose vectors are cached (default: 50000)",
    )
    parser.add_argument(
        "--servers", nargs="+", default=list(_SERVERS), choices=_SERVERS, help="default: both"
    )
    parser.add_argument(
        "--clients",
        nargs="+",
        type=int,
        default=[1, 8, 64],
        metavar="N",
        help="numbers of clients (default: 1 8 64)",
    )
    parser.add_argument(
        "--output", default="elmo", help="output to request beside `default` (default: elmo)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="rounds of each server (default: 3)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="length of a round (default: 10)")
    parser.add_argument(
        "--requests", type=int, default=0, metavar="N", help="requests per round, not --seconds"
    )
    parser.add_argument(
        "--soak", type=float, default=0, metavar="MINUTES", help="run a soak this long"
    )
    return parser.parse_args()


def _export(arguments: argparse.Namespace, folder: Path) -> Path:
    from elmo_tf import BiLM, BiLMConfig
    from elmo_tf.saved_models import export

    bilm = BiLM(BiLMConfig.preset(arguments.preset))
    export(bilm, folder / "exported", cache_tokens=arguments.cache_tokens)
    return folder / "exported"


def _questions(arguments: argparse.Namespace, exported: Path) -> list[tuple[bytes, np.ndarray]]:
    """Serialized requests and the expected `default` vector of each."""
    import tensorflow as tf
    from tensorflow_serving.apis import model_pb2

    from elmo_tf.saved_models.requests import predict_request
    from elmo_tf.text.corpus import read_sentences, text_files

    sentences = [" ".join(tokens) for tokens in read_sentences(text_files(arguments.corpus))]
    random.Random(0).shuffle(sentences)
    model = tf.saved_model.load(os.fspath(exported / "1"))
    outputs = sorted({arguments.output, "default"})
    questions = []
    for sentence in sentences[:_DISTINCT]:
        request = predict_request(model_pb2.ModelSpec(name="elmo"), [sentence], outputs)
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
    server: _Server,
    questions: list[tuple[bytes, np.ndarray]],
    num_clients: int,
    num_requests: int,
    seconds: float,
) -> dict:
    """Sends `num_requests` in total, or requests for `seconds` if it is 0. Returns the counts."""
    found: dict = {"seconds": [], "sent": 0, "answered": 0, "wrong": 0, "failed": 0}
    lock = threading.Lock()
    numbers = itertools.count()
    end = time.monotonic() + seconds

    def continues(number: int) -> bool:
        return number < num_requests if num_requests else time.monotonic() < end

    def be_client(client: int) -> None:
        mine = {"seconds": [], "sent": 0, "answered": 0, "wrong": 0, "failed": 0}
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(server.address, options) as channel:
            predict = channel.unary_unary(
                "/tensorflow.serving.PredictionService/Predict", _registered_method=True
            )
            # `next` is atomic: no two clients get the same number.
            while continues(number := next(numbers)):
                _ask_once(predict, questions[(number * 7 + client) % len(questions)], mine)
        with lock:
            for name, value in mine.items():
                found[name] += value

    threads = [threading.Thread(target=be_client, args=(client,)) for client in range(num_clients)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found["rate"] = found["answered"] / (time.monotonic() - begun)
    return found


def _ask_once(
    predict: grpc.UnaryUnaryMultiCallable, question: tuple[bytes, np.ndarray], counts: dict
) -> None:
    from tensorflow_serving.apis import predict_pb2

    request, expected = question
    counts["sent"] += 1
    begun = time.perf_counter()
    try:
        content = predict(request, timeout=120)
    except grpc.RpcError:
        counts["failed"] += 1
        return
    counts["seconds"].append(time.perf_counter() - begun)
    counts["answered"] += 1
    answer = predict_pb2.PredictResponse.FromString(content).outputs["default"].float_val
    is_right = len(answer) == len(expected) and np.allclose(answer, expected, 0, _TOLERANCE)
    counts["wrong"] += not is_right


def _summary(name: str, num_clients: int, results: list[dict]) -> dict:
    rates = [result["rate"] for result in results]
    seconds = np.concatenate([result["seconds"] for result in results] + [[]])
    if not len(seconds):
        raise SystemExit(f"The server with {name} did not answer.")
    p50, p90, p99 = 1000 * np.percentile(seconds, [50, 90, 99])
    return {
        "server": name,
        "clients": num_clients,
        "requests_per_second": round(float(np.median(rates)), 1),
        "least": round(min(rates), 1),
        "most": round(max(rates), 1),
        "p50_ms": round(p50, 2),
        "p90_ms": round(p90, 2),
        "p99_ms": round(p99, 2),
        **{
            kind: sum(result[kind] for result in results)
            for kind in ("sent", "answered", "wrong", "failed")
        },
    }


def _soak(server: _Server, questions: list, arguments: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * arguments.soak
    minute = 0
    while (left := end - time.monotonic()) > 0:
        result = _ask(server, questions, arguments.clients[-1], 0, min(60.0, left))
        minute += 1
        memory = {"minute": minute, "memory_mib": round(server.memory())}
        summary = _summary("batching", arguments.clients[-1], [result])
        print(json.dumps(memory | summary), flush=True)


if __name__ == "__main__":
    main()
