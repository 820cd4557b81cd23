"""How fast a biLM is trained: elmo_tf in float32 and bfloat16, beside the TensorFlow 1 peer.

    python benchmarks/train.py --corpus 'text/*.txt' --vocab vocab.txt

Text is real, and cut into windows once; every contender trains on the same ones, in a process of
its own. They take turns, so that a noisy machine treats all alike, and what counts are the ratios.
The peer is `simple_elmo.training`; PEER_PYTHON names an interpreter that has `simple_elmo` and
`tf-keras`. Without one, elmo_tf runs alone.
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
# Lanes of text a step; the published batch of the original does not fit a small machine.
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
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="text")
    parser.add_argument("--vocab", required=True, metavar="FILE", help="made by elmo-tf vocab")
    parser.add_argument(
        "--presets",
        nargs="+",
        default=["small", "original"],
        choices=tuple(BATCH),
        help="sizes of the biLM (small original)",
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="rows (64, original 32)")
    parser.add_argument("--unroll", type=int, default=20, metavar="N", help="(20)")
    parser.add_argument("--num-sampled", type=int, default=8192, metavar="N", help="(8192)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each (5)")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="steps a turn (5)")
    parser.add_argument(
        "--precisions", nargs="+", default=PRECISIONS, choices=PRECISIONS, help="of elmo_tf"
    )
    return parser.parse_args()


def _write_windows(path: Path, arguments: argparse.Namespace, batch_size: int) -> None:
    """As many windows as all turns take, as strings and as the peer reads them."""
    import tensorflow as tf

    from elmo_tf.text.char_ids import boundary_char_ids, char_ids
    from elmo_tf.text.corpus import text_files
    from elmo_tf.text.vocabulary import Vocabulary
    from elmo_tf.text.windows import boundary_or, target_ids
    from elmo_tf.trainers.streams import training_windows

    vocabulary = Vocabulary.load(arguments.vocab)
    files = text_files(arguments.corpus)
    windows = training_windows(files, batch_size, arguments.unroll, seed=0)
    # The rows all begin with a sentence, and are out of step only some windows later.
    count = arguments.rounds * arguments.steps + 3
    windows = list(windows.skip(20).take(count))
    inputs = tf.stack([window["inputs"] for window in windows])
    targets = tf.stack([window["targets"] for window in windows])
    rows = char_ids(inputs).numpy()
    which = boundary_or(inputs, 0, 1, -1).numpy()
    rows = np.where(which[..., None] >= 0, boundary_char_ids(50).numpy()[which], rows)
    np.savez(
        path,
        inputs=inputs.numpy().astype("S"),
        targets=targets.numpy().astype("S"),
        char_ids=(rows - 1).astype(np.int32),  # training knows no row for "no token"
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
