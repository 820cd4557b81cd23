"""Embeds text on a Ray cluster of three nodes on this machine, and loses a node and the cluster.

    python benchmarks/cluster.py --corpus 'text/*.txt' --folder work

The text is written into files of different sizes, one of which has half of all sentences. In the
first job, a node is killed half-way; then every sentence must be there once, with the vectors of
`Embedder`. In the second job, all processes are killed half-way, and the command is repeated; it
must write the missing shards only. Prints a JSON object for each job.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

_ATOL = 1e-5


def main() -> None:
    """Runs both jobs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--folder", type=Path, required=True, help="for texts and vectors")
    parser.add_argument("--model", default="small-en", help="default: small-en")
    for name, default in (("sentences", 100_000), ("files", 40)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    arguments = parser.parse_args()
    texts = _write_texts(arguments)
    print(json.dumps(_lose_node(arguments, texts)), flush=True)
    print(json.dumps(_lose_cluster(arguments, texts)), flush=True)


def _write_texts(arguments: argparse.Namespace) -> Path:
    from elmo_tf.text.corpus import read_sentences, text_files

    texts = arguments.folder / "texts"
    texts.mkdir(parents=True)
    sentences = read_sentences(text_files(arguments.corpus))
    sentences = itertools.islice(sentences, arguments.sentences)
    lines = [" ".join(tokens) for tokens in sentences]
    half = len(lines) // 2
    parts = [lines[:half], *np.array_split(lines[half:], arguments.files - 1)]
    for number, part in enumerate(parts):
        text = "".join(f"{line}\n" for line in part)
        (texts / f"{number:02}.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
    return texts


def _lose_node(arguments: argparse.Namespace, texts: Path) -> dict:
    import ray
    from ray.cluster_utils import Cluster

    from elmo_tf.pipelines import embed_with_ray

    # The job is started on a node without a core for workers.
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    doomed = [nodes.add_node(num_cpus=1) for _ in range(2)][1]
    ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
    output = arguments.folder / "vectors_node"
    killed_at: list[float] = []
    start = time.monotonic()

    def lose() -> None:
        nodes.remove_node(doomed, allow_graceful=False)
        killed_at.append(time.monotonic() - start)

    _when_half(output, texts, lose)
    counts = embed_with_ray(arguments.model, texts / "*", output, layers="top")
    seconds = time.monotonic() - start
    ray.shutdown()
    nodes.shutdown()
    return {
        "job": "a node is killed",
        **counts,
        "shards": len(list(output.glob("part-*"))),
        "killed_after_seconds": round(killed_at[0], 1),
        "seconds": round(seconds, 1),
        **_compared(output, texts, arguments.model),
    }


def _lose_cluster(arguments: argparse.Namespace, texts: Path) -> dict:
    output = arguments.folder / "vectors_cluster"
    command = [sys.executable, "-m", "elmo_tf.cli", "embed", arguments.model, f"{texts}/*"]
    command += [os.fspath(output), "--layers", "top", "--cluster", "local"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)

    def kill() -> None:
        os.killpg(process.pid, signal.SIGKILL)
        ray = Path(sys.executable).with_name("ray")
        subprocess.run([ray, "stop", "--force"], check=True, capture_output=True)

    _when_half(output, texts, kill).join()
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in _unfinished_shards(output)}
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    shards = list(output.glob("part-*"))
    kept = sum(path.stat().st_mtime_ns == before.get(path.name) for path in shards)
    return {
        "job": "all processes are killed",
        "shards": len(shards),
        "shards_before": len(before),
        "shards_kept": kept,
        "seconds_of_the_rest": round(seconds, 1),
        "sentences": sum(pq.read_metadata(path).num_rows for path in shards),
    }


def _unfinished_shards(output: Path) -> list[Path]:
    return list(output.with_name(f"{output.name}.unfinished").glob("shards/part-*"))


def _when_half(output: Path, texts: Path, act: Callable[[], None]) -> threading.Thread:
    """Calls `act` when half of the shards are complete."""
    from elmo_tf.pipelines.text_parts import parts_of

    total = sum(len(parts_of(path)) for path in texts.iterdir())

    def wait() -> None:
        while len(_unfinished_shards(output)) < total / 2:
            time.sleep(0.2)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _compared(output: Path, texts: Path, model: str) -> dict:
    """Compares all vectors with those of an `Embedder`, file by file."""
    from elmo_tf import Embedder
    from elmo_tf.text.sentence_files import sentence_reader

    embedder = Embedder(model, layers="top")
    shards: dict[str, list[Path]] = {}
    for path in sorted(output.glob("part-*")):
        name = pq.read_table(path, columns=["file"])["file"][0].as_py()
        shards.setdefault(os.path.basename(name), []).append(path)
    worst, num_seen = 0.0, 0
    for text in sorted(texts.iterdir()):
        expected = embedder.embed(sentence.tokens for sentence in sentence_reader(text)())
        numbers = []
        for (line, found), vectors in zip(_vectors(shards[text.name]), expected, strict=True):
            numbers.append(line)
            worst = max(worst, float(np.abs(found.reshape(vectors.shape) - vectors).max(initial=0)))
        if numbers != list(range(len(numbers))):
            raise SystemExit(f"{text.name} does not have every sentence once.")
        num_seen += len(numbers)
    if worst > _ATOL:
        raise SystemExit(f"A vector differs by {worst}.")
    return {"sentences_compared": num_seen, "largest_difference": worst}


def _vectors(shards: list[Path]) -> Iterator[tuple[int, np.ndarray]]:
    for path in shards:
        for batch in pq.ParquetFile(path).iter_batches(256, columns=["line", "vectors"]):
            for line, vectors in zip(*batch.columns, strict=True):
                yield line.as_py(), vectors.values.to_numpy(zero_copy_only=False)


if __name__ == "__main__":
    main()
