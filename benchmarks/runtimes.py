"""Measures exported models in their runtimes: TensorFlow, ONNX Runtime, LiteRT and OpenVINO.

    python benchmarks/runtimes.py --corpus 'en_wiki/valid/*'

Each runtime reads the same char ids in a process of its own; the processes take turns. Prints a
table: the size of a new installation of the runtime, with NumPy; the time from the start of Python
to the first vectors; the median time of a sentence of 20 tokens; and the speed in batches of 32
sentences, sorted by length.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

PACKAGES = {
    "savedmodel": "tensorflow",
    "onnx": "onnxruntime",
    "litert": "ai-edge-litert",
    "openvino": "openvino",
}
_WORK = "import sys, runtimes; runtimes.work(*sys.argv[1:])"


def main() -> None:
    """Prints a table with a row for each runtime."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--model", default="small-en", help="default: small-en")
    parser.add_argument("--sentences", type=int, default=320, metavar="N", help="default: 320")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    arguments = parser.parse_args()
    from elmo_tf.commands.options import markdown_table

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        num_tokens = _write_inputs(arguments, Path(folder))
        for name, times in _measure(folder, arguments.rounds).items():
            start, one, batches = map(statistics.median, times)
            size = f"{_installed_size(PACKAGES[name]) / 1e6:,.0f}"
            rows.append(
                [name, size, f"{start:.2f}", f"{1000 * one:.1f}", f"{num_tokens / batches:,.0f}"]
            )
    names = ["format", "installation, MB", "start, s", "sentence, ms", "tokens/s in batches"]
    print(markdown_table(names, rows))


def _write_inputs(arguments: argparse.Namespace, folder: Path) -> int:
    """Exports the model, writes ids and lengths; returns the number of tokens in all batches."""
    from elmo_tf import load_bilm, saved_models
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.reading import text_files

    bilm = load_bilm(arguments.model)
    for name in PACKAGES:
        format = None if name == "savedmodel" else name
        saved_models.export(bilm, folder / name, format=format)
    sentences = read_sentences(text_files(arguments.corpus))
    sentences = sorted(itertools.islice(sentences, arguments.sentences), key=len)
    tokens = list(itertools.chain.from_iterable(sentences))
    batches = {
        "one": [[tokens[start : start + 20]] for start in range(0, 800, 20)],
        "batches": [sentences[start : start + 32] for start in range(0, len(sentences), 32)],
    }
    for name, groups in batches.items():
        arrays = ((bilm.ids(group), np.array([*map(len, group)], np.int32)) for group in groups)
        np.savez(folder / f"{name}.npz", *itertools.chain.from_iterable(arrays))
    return len(tokens)


def _measure(folder: str, num_rounds: int) -> dict[str, tuple[list[float], ...]]:
    """The seconds of each start, sentence, and round of all batches, for each runtime."""
    times: dict[str, tuple[list[float], ...]] = {name: ([], [], []) for name in PACKAGES}
    workers = {}
    for _, name in itertools.product(range(num_rounds), PACKAGES):
        if name in workers:
            workers[name].terminate()
        start = time.perf_counter()
        workers[name] = subprocess.Popen(
            [sys.executable, "-c", _WORK, name, folder],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        workers[name].stdout.readline()
        times[name][0].append(time.perf_counter() - start)
    for _, name in itertools.product(range(num_rounds), PACKAGES):
        for kind, seconds in zip(("one", "batches"), times[name][1:], strict=True):
            print(kind, file=workers[name].stdin, flush=True)
            calls = json.loads(workers[name].stdout.readline())
            seconds += calls if kind == "one" else [sum(calls)]
    for worker in workers.values():
        worker.communicate()
    return times


def work(name: str, folder: str) -> None:
    """Runs a model: a line on stdin names the inputs, the answer has the seconds of each call."""
    run = _opened(name, Path(folder, name, "1"))
    inputs = {kind: _pairs(Path(folder, f"{kind}.npz")) for kind in ("one", "batches")}
    run(*inputs["one"][0])
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = []
        for pair in inputs[line.strip()]:
            start = time.perf_counter()
            run(*pair)
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


def _pairs(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids and lengths of each batch."""
    with np.load(path) as arrays:
        arrays = list(arrays.values())
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def _opened(name: str, folder: Path) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function of char ids and lengths that returns the output `elmo`."""
    if name == "savedmodel":
        import tensorflow as tf

        signature = tf.saved_model.load(folder).signatures["char_ids"]
        return lambda ids, lengths: signature(char_ids=tf.constant(ids))["elmo"].numpy()
    if name == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(folder / "model.onnx")
        return lambda ids, lengths: session.run(["elmo"], {"char_ids": ids, "lengths": lengths})[0]
    if name == "litert":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(folder / "model.tflite"), num_threads=os.cpu_count())
        runner = interpreter.get_signature_runner()
        return lambda ids, lengths: runner(char_ids=ids, lengths=lengths)["elmo"]
    import openvino

    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(folder / "model.xml", "CPU", exact)
    return lambda ids, lengths: model({"char_ids": ids, "lengths": lengths})["elmo"]


def _installed_size(package: str) -> int:
    """Bytes of the files of a package, NumPy, and what they need."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
        subprocess.run([*install, "numpy", package], check=True)
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
