"""Measures embedding speed and memory by batch size, sentence length and amount of text.

    python benchmarks/embed_curves.py --corpus 'text/*.txt' --preset small

Prints JSON lines. The weights are random, the text is real.

- `batch`: the same sentences in batches of different sizes.
- `length`: the same tokens cut into sentences of one length.
- `growth`: HDF5 files of more and more tokens, written by `Embedder.embed_file`, and the growth of
  the process since the first.
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

from elmo_tf import BiLM, BiLMConfig, Embedder, save_bilm
from elmo_tf.processors import share_cores_for_embedding
from elmo_tf.text.corpus import read_sentences
from elmo_tf.text.reading import text_files

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
    precision = arguments.precision
    cases = {
        size: (Embedder(folder, precision=precision, batch_tokens=size), sample)
        for size in BATCH_TOKENS
    }
    yield from _rates("batch_tokens", cases, arguments.rounds)


def _length(folder: str, sentences: list, arguments: argparse.Namespace) -> Iterator[dict]:
    tokens = list(itertools.chain(*_first(sentences, arguments.tokens)))
    embedder = Embedder(folder, precision=arguments.precision)
    cases = {
        length: (embedder, [tokens[i : i + length] for i in range(0, len(tokens), length)])
        for length in LENGTHS
    }
    yield from _rates("sentence_tokens", cases, arguments.rounds)


def _rates(name: str, cases: dict[int, tuple[Embedder, list]], rounds: int) -> Iterator[dict]:
    """The median tokens per second of each case; the cases alternate."""
    rates: dict[int, list[float]] = {case: [] for case in cases}
    for _ in range(rounds + 1):
        for case, (embedder, sentences) in cases.items():
            start = time.perf_counter()
            for _ in embedder.embed(sentences):
                pass
            rates[case].append(sum(map(len, sentences)) / (time.perf_counter() - start))
    for case, found in rates.items():  # the first round traces
        yield {name: case, "tokens_per_second": round(float(np.median(found[1:])), 1)}


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


def _first(sentences, num_tokens: int) -> list[list[str]]:
    part, count = [], 0
    for sentence in sentences:
        part.append(sentence)
        count += len(sentence)
        if count >= num_tokens:
            break
    return part


CURVES = {"batch": _batch, "length": _length, "growth": _growth}

if __name__ == "__main__":
    main()
