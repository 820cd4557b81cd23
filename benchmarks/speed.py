"""Measures the embedding or training speed of elmo_tf in float32 and bfloat16, and of two peers.

    python benchmarks/speed.py embed --corpus 'text/*.txt'
    python benchmarks/speed.py train --corpus 'text/*.txt' --vocab vocab.txt

The weights are random, in the published sizes. The text is real. In each round, every contender is
a new process, which runs a warm-up and then the round, which is timed: it embeds sentences into all
layers with default settings, or trains on windows. The machine's speed drifts, so the ratios to the
faster peer count, not the absolute figures. Prints one JSON object for each contender and shape.

PEER_PYTHON lists interpreters, separated by colons, that have `allennlp==2.10.1` with `numpy<1.24`
(Python 3.9) or `simple_elmo` with `tf-keras`. Without it, only elmo_tf runs.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_WORKER = str(Path(__file__).resolve().parent / "contenders.py")
_SHAPES = ("tiny", "small", "medium", "original")
_PRECISIONS = {
    "embed": {"float32": "float32", "bfloat16": "bfloat16"},
    "train": {"float32": "float32", "bfloat16": "mixed_bfloat16"},
}
# Peers: a name in the results, and environment variables.
_PEERS = {
    "embed": {
        "allennlp": ("PyTorch peer", {}),
        "simple_elmo": ("TF1 peer", {"TF_USE_LEGACY_KERAS": "1"}),
    },
    "train": {"simple_elmo": ("TF1 peer", {"TF_USE_LEGACY_KERAS": "1"})},
}
_WARM_UP = {"embed": 64, "train": 5}  # sentences, or windows


def main() -> None:
    """Measures all shapes."""
    arguments = _parse()
    peers = _peers(arguments.work, os.environ.get("PEER_PYTHON", ""))
    if not peers:
        print("PEER_PYTHON names no peer: elmo_tf runs alone.", file=sys.stderr)
    for shape in arguments.shapes:
        with tempfile.TemporaryDirectory() as folder:
            write = _write_sentences if arguments.work == "embed" else _write_windows
            tokens = write(Path(folder), shape, arguments)
            contenders = {
                precision: (
                    [sys.executable, _WORKER, f"{arguments.work}_elmo_tf"],
                    [_PRECISIONS[arguments.work][precision]],
                    {},
                )
                for precision in arguments.precisions
            }
            contenders |= peers
            rounds = [_round(contenders, folder, n) for n in range(1, arguments.rounds + 1)]
        for name in contenders:
            result = _result(rounds, name, tokens, peers)
            print(json.dumps({"shape": shape, "contender": name, **result}), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=_PEERS)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--vocab", metavar="FILE", help="for training; from elmo-tf vocab")
    parser.add_argument(
        "--shapes", nargs="+", default=["small", "original"], choices=_SHAPES, help="presets"
    )
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    for name, default, help in (
        ("rounds", 3, "rounds of each contender"),
        ("sentences", 512, "embed: sentences per round"),
        ("steps", 5, "train: steps per round"),
        ("batch-size", 64, "train: batch rows"),
        ("unroll", 20, "train: tokens per row and step"),
        ("num-sampled", 8192, "train: negative samples per direction and step"),
    ):
        help = f"{help} (default: {default})"
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=help)
    return parser.parse_args()


def _peers(work: str, pythons: str) -> dict[str, tuple]:
    """The command, its last arguments and the environment of each peer that is installed."""
    found = {}
    for python in filter(None, pythons.split(os.pathsep)):
        for package, (name, environment) in _PEERS[work].items():
            code = f"import importlib.util as u, sys; sys.exit(not u.find_spec('{package}'))"
            if subprocess.run([python, "-c", code], check=False).returncode == 0:
                found[name] = [python, _WORKER, f"{work}_{package}"], [], environment
    return found


def _write_sentences(folder: Path, shape: str, arguments: argparse.Namespace) -> list[int]:
    """Writes a checkpoint and shuffled sentences; returns the tokens of each round."""
    from elmo_tf import BiLM, BiLMConfig, save_bilm
    from elmo_tf.text.corpus import read_sentences
    from elmo_tf.text.reading import text_files

    save_bilm(BiLM(BiLMConfig.preset(shape)), folder)
    sentences = list(read_sentences(text_files(arguments.corpus)))
    random.Random(0).shuffle(sentences)
    rounds = _parts(sentences, _WARM_UP["embed"], arguments.sentences, arguments.rounds)
    (folder / "rounds.json").write_text(json.dumps(rounds), encoding="utf-8")
    return [sum(map(len, sentences)) for sentences in rounds[1:]]


def _write_windows(folder: Path, shape: str, arguments: argparse.Namespace) -> list[int]:
    """Writes settings and windows, as strings and in the peer's format; returns their tokens."""
    import tensorflow as tf

    from elmo_tf.config import BiLMConfig
    from elmo_tf.text.characters import BYTES, char_ids
    from elmo_tf.text.corpus import line_dataset
    from elmo_tf.text.reading import text_files
    from elmo_tf.text.vocabulary import Vocabulary
    from elmo_tf.text.windows import LMWindows, boundary_or, target_ids

    vocabulary = Vocabulary.load(shutil.copy(arguments.vocab, folder / "vocab.txt"))
    options = BiLMConfig.preset(shape).to_options()
    (folder / "options.json").write_text(json.dumps(options))
    options["char_cnn"]["n_characters"] = 261  # the peer's trainer refuses 262
    options |= {"bidirectional": True, "dropout": 0.1, "learning_rate": 0.2}
    options |= {"batch_size": arguments.batch_size, "unroll_steps": arguments.unroll}
    options |= {"all_clip_norm_val": 10.0, "n_negative_samples_batch": arguments.num_sampled}
    options |= {"n_tokens_vocab": len(vocabulary)}
    (folder / "peer.json").write_text(json.dumps(options))

    lines = line_dataset(text_files(arguments.corpus), seed=0).repeat()
    windows = LMWindows(lines, arguments.batch_size, arguments.unroll)
    # All rows begin with a sentence. Some windows later, they are at different positions.
    count = _WARM_UP["train"] + arguments.rounds * arguments.steps
    windows = list(itertools.islice(windows, 20, 20 + count))
    inputs, targets = (
        tf.stack([window[name] for window in windows]) for name in ("inputs", "targets")
    )
    rows = char_ids(inputs).numpy()
    which = boundary_or(inputs, 0, 1, -1).numpy()
    rows = np.where(which[..., None] >= 0, BYTES.boundary_ids(50).numpy()[which], rows)
    np.savez(
        folder / "windows.npz",
        inputs=inputs.numpy().astype("S"),
        targets=targets.numpy().astype("S"),
        char_ids=(rows - 1).astype(np.int32),  # the trainer has no row for padding
        target_ids=target_ids(vocabulary, targets).numpy().astype(np.int64),
    )
    rounds = _parts(range(count), _WARM_UP["train"], arguments.steps, arguments.rounds)
    (folder / "rounds.json").write_text(json.dumps(rounds))
    return [arguments.steps * arguments.batch_size * arguments.unroll] * arguments.rounds


def _parts(units, warm_up: int, size: int, rounds: int) -> list[list]:
    """The units of the warm-up, then of each round."""
    ends = [warm_up + number * size for number in range(rounds + 1)]
    if len(units) < ends[-1]:
        raise SystemExit(f"The corpus has {len(units)} sentences; {ends[-1]} are needed.")
    return [list(units[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _round(contenders: dict, folder: str, number: int) -> dict[str, dict]:
    """The answers of all contenders, one process after the other."""
    answers = {}
    for name, (command, arguments, more) in contenders.items():
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **more}
        output = subprocess.run(
            [*command, folder, str(number), *arguments],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        answers[name] = json.loads(output.splitlines()[-1])
    return answers


def _result(rounds: list[dict], name: str, tokens: list[int], peers: dict) -> dict:
    answers = [answers[name] for answers in rounds]
    rates = [count / answer["seconds"] for count, answer in zip(tokens, answers, strict=True)]
    result = {
        "tokens_per_second": round(statistics.median(rates), 1),
        "all": [round(rate, 1) for rate in rates],
        "peak_memory_mib": round(max(answer["peak_mib"] for answer in answers)),
    }
    if peers:
        ratios = [
            min(answers[peer]["seconds"] for peer in peers) / answers[name]["seconds"]
            for answers in rounds
        ]
        result["ratio_to_peer"] = round(statistics.median(ratios), 2)
        result["ratios"] = [round(ratio, 2) for ratio in ratios]
    return result


if __name__ == "__main__":
    main()
