"""Mixes the training text of small-en from its sources, which docs/measurements/mix.json lists.

    python benchmarks/mix_text.py --data DATA/lm --output mix

Each sentence occurs as often as the weight of its source says: once or twice, or with a probability
if the weight is below 1. All sentences are shuffled, and written to 32 files. The numbers of tokens
in mix.json are updated.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from studies import MEASUREMENTS, measured

_FILES = 32


def sentences(folder: Path, weight: float, rng: random.Random) -> Iterator[str]:
    """The lines of a source, each as often as its weight says."""
    for file in sorted(folder.glob("*.tok")):
        for line in file.read_text("utf-8").rstrip("\n").split("\n"):
            yield from [line + "\n"] * (int(weight) + (rng.random() < weight % 1))


def main() -> None:
    """Writes the files and the numbers of tokens."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--output", type=Path, required=True, help="folder of the mixed text")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True)
    rng = random.Random(0)
    lines: list[str] = []
    sources = measured("mix")
    for source in sources:
        found = list(sentences(arguments.data / source["folder"], source["weight"], rng))
        source["tokens"] = sum(len(line.split()) for line in found)
        lines += found
    rng.shuffle(lines)
    for number in range(_FILES):
        part = "".join(lines[number::_FILES])
        (arguments.output / f"{number:02}.txt").write_text(part, encoding="utf-8")
    (MEASUREMENTS / "mix.json").write_text(json.dumps(sources, indent=1) + "\n")


if __name__ == "__main__":
    main()
