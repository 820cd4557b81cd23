"""Measures the embedding speed of elmo_tf in float32 and bfloat16, and of two peers.

    python benchmarks/embed.py --corpus 'text/*.txt'

The weights are random, in the published sizes and format. The text is real: shuffled sentences.
The output is all layers. In each round, every contender is a new process with default settings,
which embeds 64 sentences as a warm-up, then other sentences in one call. That call is timed. The
machine's speed drifts, so the ratios to the faster peer count, not the absolute figures.

PEER_PYTHON lists interpreters, separated by colons, that have `allennlp==2.10.1` with `numpy<1.24`
(Python 3.9) or `simple_elmo` with `tf-keras`. Without it, only elmo_tf runs.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = str(Path(__file__).resolve().parent / "embed_worker.py")
PRECISIONS = ("float32", "bfloat16")
# The package of each peer, its name in the results, and the environment of its process.
PEERS = (
    ("allennlp", "PyTorch peer", {}),
    ("simple_elmo", "TF1 peer", {"TF_USE_LEGACY_KERAS": "1"}),
)
WARM_UP = 64  # sentences


def main() -> None:
    """Prints one JSON object for each contender and shape."""
    arguments = _parse()
    peers = _peers(os.environ.get("PEER_PYTHON", ""))
    if not peers:
        print("PEER_PYTHON names no peer: elmo_tf runs alone.", file=sys.stderr)
    groups = _groups(arguments)
    tokens = [sum(map(len, group)) for group in groups[1:]]
    for preset in arguments.presets:
        with tempfile.TemporaryDirectory() as folder:
            sentences = Path(folder) / "sentences.json"
            sentences.write_text(json.dumps(groups), encoding="utf-8")
            checkpoint = _checkpoint(preset, Path(folder) / preset)
            contenders = _contenders(sentences, checkpoint, arguments, peers)
            rounds = [_round(contenders, number) for number in range(1, len(groups))]
            for name in contenders:
                result = _result([answers[name] for answers in rounds], tokens)
                if peers:
                    result |= _ratios(rounds, name, peers)
                print(json.dumps({"shape": preset, "contender": name, **result}), flush=True)


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
        ("sentences", 512, "sentences per round"),
        ("rounds", 3, "rounds of each contender"),
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
    """Sentences of the warm-up, then of each round, drawn from the complete text."""
    from elmo_tf.text.corpus import read_sentences, text_files

    sentences = list(read_sentences(text_files(arguments.corpus)))
    random.Random(0).shuffle(sentences)
    ends = [WARM_UP + number * arguments.sentences for number in range(arguments.rounds + 1)]
    if len(sentences) < ends[-1]:
        raise SystemExit(f"The corpus has {len(sentences)} sentences; {ends[-1]} are needed.")
    return [sentences[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _checkpoint(preset: str, folder: Path) -> Path:
    from elmo_tf import BiLM, BiLMConfig, save_bilm

    save_bilm(BiLM(BiLMConfig.preset(preset)), folder)
    return folder


def _contenders(
    sentences: Path, checkpoint: Path, arguments: argparse.Namespace, peers: dict
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The command and the environment of each contender, without the number of the round."""
    inputs = [str(sentences), str(checkpoint)]
    own = {
        precision: ([sys.executable, WORKER, "elmo_tf", *inputs, precision], {})
        for precision in arguments.precisions
    }
    theirs = {name: ([*command, *inputs], more) for name, (command, more) in peers.items()}
    return {**own, **theirs}


def _round(contenders: dict, number: int) -> dict[str, dict]:
    """The answers of all contenders, one process after the other."""
    answers = {}
    for name, (command, more) in contenders.items():
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "GROUP": str(number), **more}
        output = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        answers[name] = json.loads(output.splitlines()[-1])
    return answers


def _result(answers: list[dict], tokens: list[int]) -> dict:
    rates = [count / answer["seconds"] for count, answer in zip(tokens, answers, strict=True)]
    return {
        "tokens_per_second": round(statistics.median(rates), 1),
        "all": [round(rate, 1) for rate in rates],
        "peak_memory_mib": round(max(answer["peak_mib"] for answer in answers)),
    }


def _ratios(rounds: list[dict], name: str, peers: dict) -> dict:
    ratios = [
        min(answers[peer]["seconds"] for peer in peers) / answers[name]["seconds"]
        for answers in rounds
    ]
    return {
        "ratio_to_peer": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }


if __name__ == "__main__":
    main()
