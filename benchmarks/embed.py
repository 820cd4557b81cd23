"""How fast sentences are embedded: elmo_tf in float32 and bfloat16, beside two peers.

    python benchmarks/embed.py --corpus 'text/*.txt'

Weights are random, of the published sizes and in the published format; text is real: shuffled
sentences, of which each contender puts those of like length together. All layers come out. Every
contender runs in a process of its own; they take turns on the same sentences, after warming up on
others, and what counts are the ratios to the faster peer.

PEER_PYTHON names interpreters, with a colon between them, that have `allennlp==2.10.1` with
`numpy<1.24` (Python 3.9) or `simple_elmo` with `tf-keras`. Without one, elmo_tf runs alone.
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

HERE = Path(__file__).resolve().parent
PRECISIONS = ("float32", "bfloat16")
# A package that tells which peer an interpreter has, its name here, and the script that runs it.
PEERS = (
    ("allennlp", "PyTorch peer", "embed_allennlp.py", {}),
    ("simple_elmo", "TF1 peer", "embed_tf1.py", {"TF_USE_LEGACY_KERAS": "1"}),
)


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
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text")
    parser.add_argument(
        "--presets",
        nargs="+",
        default=["original", "small"],
        choices=("tiny", "small", "medium", "original"),
        help="sizes of the biLM (original small)",
    )
    parser.add_argument("--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument(
        "--sentences", type=int, default=256, metavar="N", help="sentences of a turn (256)"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each (5)")
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, metavar="N", help="of elmo_tf (4096)"
    )
    return parser.parse_args()


def _peers(pythons: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The command and the environment of each peer that some interpreter has."""
    found = {}
    for python in filter(None, pythons.split(os.pathsep)):
        for package, name, script, environment in PEERS:
            code = (
                f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{package}'))"
            )
            if subprocess.run([python, "-c", code], check=False).returncode == 0:
                found[name] = [python, str(HERE / script)], environment
    return found


def _groups(arguments: argparse.Namespace) -> list[list[list[str]]]:
    """Sentences of each turn, drawn from the whole text; the first three are to warm up on."""
    from elmo_tf.text.corpus import read_sentences, text_files

    sentences = list(read_sentences(text_files(arguments.corpus)))
    random.Random(0).shuffle(sentences)
    size, count = arguments.sentences, arguments.rounds + 3
    if len(sentences) < size * count:
        raise SystemExit(f"{size * count} sentences are needed; the corpus has {len(sentences)}.")
    return [sentences[start * size : (start + 1) * size] for start in range(count)]


def _checkpoint(preset: str, folder: Path) -> Path:
    from elmo_tf import BiLM, BiLMConfig, save_bilm

    save_bilm(BiLM(BiLMConfig.preset(preset)), folder)
    return folder


def _compete(
    sentences: Path, checkpoint: Path, arguments: argparse.Namespace, peers: dict
) -> dict[str, Contender]:
    contenders = {}
    for precision in arguments.precisions:
        command = [sys.executable, str(HERE / "embed_elmo_tf.py"), str(sentences), str(checkpoint)]
        contenders[precision] = Contender([*command, precision, str(arguments.batch_tokens)])
    for name, (command, environment) in peers.items():
        contenders[name] = Contender([*command, str(sentences), str(checkpoint)], environment)
    compete(contenders, list(peers), arguments.rounds, steps=1)
    return contenders


def _result(preset: str, name: str, contender: Contender, groups: list) -> dict:
    tokens = sum(len(sentence) for group in groups[3:] for sentence in group)
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
