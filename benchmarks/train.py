"""Measures the training speed of elmo_tf in float32 and bfloat16, and of the TensorFlow 1 peer.

    python benchmarks/train.py --corpus 'text/*.txt' --vocab vocab.txt

Every contender trains on the same windows of real text, in a process of its own; the processes
alternate. The machine's speed drifts, so the ratios to the peer count, not the absolute figures.

The peer is `simple_elmo.training`. PEER_PYTHON names an interpreter that has `simple_elmo` and
`tf-keras`; without it, only elmo_tf runs.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from contenders import Contender, compete, ratios

HERE = Path(__file__).resolve().parent
# Batch rows. The published batch of the original does not fit a small machine.
BATCH = {"tiny": 64, "small": 64, "medium": 64, "original": 32}
PRECISIONS = ("float32", "mixed_bfloat16")
PEER = "TF1 peer"


def main() -> None:
    """Prints one JSON object for each contender and shape."""
    arguments = _parse()
    peer_python = os.environ.get("PEER_PYTHON")
    if not peer_python:
        print("PEER_PYTHON is not set: elmo_tf runs alone.", file=sys.stderr)
    for preset in arguments.presets:
        batch_size = arguments.batch_size or BATCH[preset]
        with tempfile.TemporaryDirectory() as folder:
            windows = Path(folder) / "windows.npz"
            _write_windows(windows, arguments, batch_size)
            _compete(preset, batch_size, windows, arguments, peer_python)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text files")
    parser.add_argument("--vocab", required=True, metavar="FILE", help="written by elmo-tf vocab")
    parser.add_argument(
        "--presets",
        nargs="+",
        default=["small", "original"],
        choices=tuple(BATCH),
        help="sizes of the biLM (default: small original)",
    )
    for name, default, help in (
        ("batch-size", None, "batch rows (default: 64, original 32)"),
        ("unroll", 20, "tokens per row and step (default: 20)"),
        ("num-sampled", 8192, "negative samples per direction and step (default: 8192)"),
        ("rounds", 5, "rounds of each contender (default: 5)"),
        ("steps", 5, "steps per round (default: 5)"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=help)
    parser.add_argument(
        "--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS, help="default: both"
    )
    return parser.parse_args()


def _write_windows(path: Path, arguments: argparse.Namespace, batch_size: int) -> None:
    """Writes the windows of all rounds, as strings and in the peer's format."""
    import tensorflow as tf

    from elmo_tf.text.char_ids import BYTES, char_ids
    from elmo_tf.text.corpus import text_files
    from elmo_tf.text.vocabulary import Vocabulary
    from elmo_tf.text.windows import boundary_or, target_ids
    from elmo_tf.trainers.pretraining import training_windows

    vocabulary = Vocabulary.load(arguments.vocab)
    files = text_files(arguments.corpus)
    windows = training_windows(files, batch_size, arguments.unroll, seed=0)
    # All rows begin with a sentence. Some windows later, they are at different positions.
    count = arguments.rounds * arguments.steps + 3
    windows = list(windows.skip(20).take(count))
    inputs = tf.stack([window["inputs"] for window in windows])
    targets = tf.stack([window["targets"] for window in windows])
    rows = char_ids(inputs).numpy()
    which = boundary_or(inputs, 0, 1, -1).numpy()
    rows = np.where(which[..., None] >= 0, BYTES.boundary_ids(50).numpy()[which], rows)
    np.savez(
        path,
        inputs=inputs.numpy().astype("S"),
        targets=targets.numpy().astype("S"),
        char_ids=(rows - 1).astype(np.int32),  # the trainer has no row for padding
        target_ids=target_ids(vocabulary, targets).numpy().astype(np.int64),
    )


def _compete(
    preset: str,
    batch_size: int,
    windows: Path,
    arguments: argparse.Namespace,
    peer_python: str | None,
) -> None:
    contenders = {
        precision: Contender(
            [
                *(sys.executable, str(HERE / "train_elmo_tf.py"), str(windows)),
                *(arguments.vocab, preset, str(arguments.num_sampled), precision),
            ],
        )
        for precision in arguments.precisions
    }
    if peer_python:
        options = json.dumps(_peer_options(preset, batch_size, arguments))
        contenders[PEER] = Contender(
            [peer_python, str(HERE / "train_tf1.py"), str(windows), options],
            {"TF_USE_LEGACY_KERAS": "1"},
        )
    compete(contenders, [PEER] if peer_python else [], arguments.rounds, arguments.steps)
    for name, contender in contenders.items():
        print(json.dumps(_result(preset, name, contender, batch_size * arguments.unroll)))


def _peer_options(preset: str, batch_size: int, arguments: argparse.Namespace) -> dict:
    from elmo_tf.config import BiLMConfig
    from elmo_tf.text.vocabulary import Vocabulary

    options = BiLMConfig.preset(preset).to_options()
    options["char_cnn"]["n_characters"] = 261  # its trainer refuses 262
    return {
        **options,
        "bidirectional": True,
        "batch_size": batch_size,
        "unroll_steps": arguments.unroll,
        "dropout": 0.1,
        "learning_rate": 0.2,
        "all_clip_norm_val": 10.0,
        "n_negative_samples_batch": arguments.num_sampled,
        "n_tokens_vocab": len(Vocabulary.load(arguments.vocab)),
    }


def _result(preset: str, name: str, contender: Contender, tokens: int) -> dict:
    median = float(np.median(contender.seconds))
    return {
        "shape": preset,
        "contender": name,
        "tokens_per_second": round(tokens / median, 1),
        "seconds_per_step": round(median, 4),
        "peak_memory_mib": round(contender.peak_mib),
        **ratios(contender),
    }


if __name__ == "__main__":
    main()
