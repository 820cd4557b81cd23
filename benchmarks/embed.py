"""Measures the embedding speed of elmo_tf in float32 and bfloat16, and of two peers.

    python benchmarks/embed.py --corpus 'text/*.txt'

The weights are random, in the published sizes and format. The text is real: shuffled sentences,
which each contender groups by length. The output is all layers. Every contender is a process of its
own; they alternate on the same sentences after a warm-up on others. The machine's speed drifts, so
the ratios to the faster peer count, not the absolute figures.

PEER_PYTHON lists interpreters, separated by colons, that have `allennlp==2.10.1` with `numpy<1.24`
(Python 3.9) or `simple_elmo` with `tf-keras`. Without it, only elmo_tf runs.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from contenders import Contender, compete, ratios

WORKER = str(Path(__file__).resolve().parent / "embed_worker.py")
PRECISIONS = ("float32", "bfloat16")
# The package of each peer, its name in the results, and the environment of its process.
PEERS = (
    ("allennlp", "PyTorch peer", {}),
    ("simple_elmo", "TF1 peer", {"TF_USE_LEGACY_KERAS": "1"}),
)
WARM_UP = 3  # rounds


def main() -> None:
    """Prints one JSON object for each contender and shape."""
    arguments = _parse()
    peers = _peers(os.environ.get("PEER_PYTHON", ""))
    if not peers:
        print("PEER_PYTHON names no peer: elmo_tf runs alone.", file=sys.stderr)
    groups = _groups(arguments)
    for preset in arguments.presets:
        with tempfile.TemporaryDirectory() as folder:
            sentences = Path(folder) / "sentences.json"
            sentences.write_text(json.dumps(groups), encoding="utf-8")
            checkpoint = _checkpoint(preset, Path(folder) / preset)
            for name, contender in _compete(sentences, checkpoint, arguments, peers).items():
                print(json.dumps(_result(preset, name, contender, groups)), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument(
        "--presets",
        nargs="+",
        default=["original", "small"],
        choices=("tiny", "small", "medium", "original"),
        help="sizes of the biLM (default: original small)",
    )
    parser.add_argument(
        "--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS, help="default: both"
    )
    for name, default, help in (
        ("sentences", 256, "sentences per round"),
        ("rounds", 5, "rounds of each contender"),
        ("batch-tokens", 4096, "tokens per batch of elmo_tf"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{help} (default: {default})"
        )
    return parser.parse_args()


def _peers(pythons: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The command and the environment of each peer that an interpreter has."""
    found = {}
    for python in filter(None, pythons.split(os.pathsep)):
        for package, name, environment in PEERS:
            code = (
                f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{package}'))"
            )
            if subprocess.run([python, "-c", code], check=False).returncode == 0:
                found[name] = [python, WORKER, package], environment
    return found


def _groups(arguments: argparse.Namespace) -> list[list[list[str]]]:
    """Sentences of the warm-up rounds and of each round, drawn from the complete text."""
    from elmo_tf.text.corpus import read_sentences, text_files

    sentences = list(read_sentences(text_files(arguments.corpus)))
    random.Random(0).shuffle(sentences)
    size, count = arguments.sentences, arguments.rounds + WARM_UP
    if len(sentences) < size * count:
        raise SystemExit(f"The corpus has {len(sentences)} sentences; {size * count} are needed.")
    return [sentences[start * size : (start + 1) * size] for start in range(count)]


def _checkpoint(preset: str, folder: Path) -> Path:
    from elmo_tf import BiLM, BiLMConfig, save_bilm

    save_bilm(BiLM(BiLMConfig.preset(preset)), folder)
    return folder


def _compete(
    sentences: Path, checkpoint: Path, arguments: argparse.Namespace, peers: dict
) -> dict[str, Contender]:
    inputs, batch_tokens = [str(sentences), str(checkpoint)], str(arguments.batch_tokens)
    contenders = {
        precision: Contender([sys.executable, WORKER, "elmo_tf", *inputs, precision, batch_tokens])
        for precision in arguments.precisions
    }
    for name, (command, environment) in peers.items():
        contenders[name] = Contender([*command, *inputs], environment)
    compete(contenders, list(peers), arguments.rounds, steps=1)
    return contenders


def _result(preset: str, name: str, contender: Contender, groups: list) -> dict:
    tokens = sum(len(sentence) for group in groups[WARM_UP:] for sentence in group)
    return {
        "shape": preset,
        "contender": name,
        "tokens_per_second": round(tokens / sum(contender.seconds), 1),
        "tokens": tokens,
        "peak_memory_mib": round(contender.peak_mib),
        **ratios(contender),
    }


if __name__ == "__main__":
    main()
