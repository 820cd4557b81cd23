"""Measures embedding speed and memory by batch size, sentence length and amount of text.

    python benchmarks/embed_curves.py --corpus 'text/*.txt' --preset small

Prints JSON lines. The weights are random, the text is real.

- `batch`: the same sentences in batches of different sizes.
- `length`: the same tokens cut into sentences of one length.
- `growth`: HDF5 files of more and more tokens, written by `Embedder.embed_file`, and the growth of
  the process since the first.
- `stages`: the time of each stage, and the speed of a plain product of 2,048 x 2,048 matrices.
"""

import argparse
import itertools
import json
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from elmo_tf import BiLM, BiLMConfig, Embedder, save_bilm
from elmo_tf.text.corpus import read_sentences, text_files
from elmo_tf.threads import num_cores, share_cores_for_embedding

BATCH_TOKENS = (256, 1024, 4096, 16_384)
LENGTHS = (5, 10, 20, 40, 80, 160, 320)
AMOUNTS = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    """Prints the points of the chosen curves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument(
        "--preset", default="small", choices=("tiny", "small", "medium", "original")
    )
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--curves", nargs="+", default=list(CURVES), choices=CURVES)
    parser.add_argument(
        "--tokens",
        type=int,
        default=40_000,
        metavar="N",
        help="tokens per point (default: 40000); not growth",
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    arguments = parser.parse_args()
    share_cores_for_embedding()
    sentences = list(read_sentences(text_files(arguments.corpus)))
    random.Random(0).shuffle(sentences)
    with tempfile.TemporaryDirectory() as folder:
        save_bilm(BiLM(BiLMConfig.preset(arguments.preset)), folder)
        for curve in arguments.curves:
            for point in CURVES[curve](folder, sentences, arguments):
                about = {"shape": arguments.preset, "precision": arguments.precision}
                print(json.dumps({"curve": curve, **about, **point}), flush=True)


def _batch(folder: str, sentences: list, arguments: argparse.Namespace) -> Iterator[dict]:
    sample = _first(sentences, arguments.tokens)
    embedders = {
        size: Embedder(folder, precision=arguments.precision, batch_tokens=size)
        for size in BATCH_TOKENS
    }
    rates: dict[int, list[float]] = {size: [] for size in BATCH_TOKENS}
    for _ in range(arguments.rounds + 1):
        for size, embedder in embedders.items():
            rates[size].append(_rate(embedder, sample))
    for size in BATCH_TOKENS:
        yield {"batch_tokens": size, "tokens_per_second": _median(rates[size])}


def _length(folder: str, sentences: list, arguments: argparse.Namespace) -> Iterator[dict]:
    tokens = list(itertools.chain(*_first(sentences, arguments.tokens)))
    embedder = Embedder(folder, precision=arguments.precision)
    rates: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(arguments.rounds + 1):
        for length in LENGTHS:
            cut = [tokens[start : start + length] for start in range(0, len(tokens), length)]
            rates[length].append(_rate(embedder, cut))
    for length in LENGTHS:
        yield {"sentence_tokens": length, "tokens_per_second": _median(rates[length])}


def _growth(folder: str, sentences: list, arguments: argparse.Namespace) -> Iterator[dict]:
    embedder = Embedder(folder, precision=arguments.precision)
    many = itertools.cycle(sentences)
    list(embedder.embed(_first(sentences[::-1], arguments.tokens)))
    first_peak = None
    for amount in AMOUNTS:
        text, output = Path(folder, "text.txt"), Path(folder, "vectors.hdf5")
        part = _first(many, amount)
        text.write_text("\n".join(map(" ".join, part)), encoding="utf-8", errors="surrogateescape")
        start = time.perf_counter()
        count = embedder.embed_file(text, output, overwrite=True)
        seconds = time.perf_counter() - start
        output.unlink()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts KiB
        first_peak = first_peak or peak
        yield {
            "tokens": count.tokens,
            "tokens_per_second": round(count.tokens / seconds, 1),
            "peak_memory_mib": round(peak),
            "grown_mib": round(peak - first_peak),
        }


def _stages(folder: str, sentences: list, arguments: argparse.Namespace) -> Iterator[dict]:
    """Yields the seconds of the token encoder, and of everything else."""
    embedder = Embedder(folder, precision=arguments.precision)
    sample = _first(sentences, arguments.tokens)
    list(embedder.embed(sample))  # warm-up: shapes
    embedder._table.forget()
    start = time.perf_counter()
    embedder._table.rows([[token.encode() for token in tokens] for tokens in sample])
    encoded = time.perf_counter()
    list(embedder.embed(sample))
    rest = time.perf_counter() - encoded
    num_tokens = sum(map(len, sample))
    flops = _lstm_flops(embedder.bilm.config) * num_tokens
    yield {
        "tokens": num_tokens,
        "seconds": {"encoder": round(encoded - start, 3), "LSTMs and the rest": round(rest, 3)},
        "lstm_gflop_per_second": round(flops / rest / 1e9),
        "matmul_gflop_per_second": round(_matmul_rate(arguments.precision)),
    }


def _lstm_flops(config: BiLMConfig) -> int:
    """Floating-point operations of the LSTMs' matrix products per token."""
    lstm = config.lstm
    cell = 2 * lstm.projection_dim * 4 * lstm.dim + lstm.dim * lstm.projection_dim
    return 2 * cell * lstm.num_layers * config.num_directions


def _matmul_rate(precision: str) -> float:
    """GFLOP/s of plain matrix products, one per core in parallel."""
    matrices = [tf.cast(tf.random.normal((2048, 2048)), precision) for _ in range(num_cores())]
    products = tf.function(lambda: [tf.matmul(matrix, matrix)[0, 0] for matrix in matrices])
    products()
    start = time.perf_counter()
    for _ in range(10):
        products()[0].numpy()
    seconds = time.perf_counter() - start
    return 10 * len(matrices) * 2 * 2048**3 / seconds / 1e9


def _first(sentences, num_tokens: int) -> list[list[str]]:
    part, count = [], 0
    for sentence in sentences:
        part.append(sentence)
        count += len(sentence)
        if count >= num_tokens:
            break
    return part


def _rate(embedder: Embedder, sentences: list[list[str]]) -> float:
    start = time.perf_counter()
    for _ in embedder.embed(sentences):
        pass
    return sum(map(len, sentences)) / (time.perf_counter() - start)


def _median(rates: list[float]) -> float:
    return round(float(np.median(rates[1:])), 1)  # the first round traces


CURVES = {"batch": _batch, "length": _length, "growth": _growth, "stages": _stages}

if __name__ == "__main__":
    main()
