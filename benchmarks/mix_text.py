"""Mixes the training text of small-en from its sources.

    python benchmarks/mix_text.py --data DATA/lm --output mix

Each sentence occurs as often as the weight of its source says: once or twice, or with a probability
if the weight is below 1. All sentences are shuffled, and written to 32 files.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

WEIGHTS = {
    "en_wiki/train": 2,
    "en_novels": 1,
    "en_more/wikipedia": 1,
    "en_more/standard_ebooks": 0.6,
    "en_more/litbank_novels": 0.6,
    "en_more/eltec_novels": 0.5,
    "en_more/openstax_by": 1,
    "en_more/us_government_web": 1,
    "en_more/stack_exchange": 1,
    "en_more/schema_guided_dialogue": 0.5,
    "en_more/us_presidents": 1,
    "en_more/wikinews": 1,
    "en_more/children_stories": 1,
    "en_more/tatoeba": 1,
}
_FILES = 32


def sentences(folder: Path, weight: float, rng: random.Random) -> Iterator[str]:
    """The lines of a source, each as often as its weight says."""
    for file in sorted(folder.iterdir()):
        for line in file.read_text("utf-8").splitlines(keepends=True):
            yield from [line] * (int(weight) + (rng.random() < weight % 1))


def main() -> None:
    """Writes the files, and prints the tokens of each source."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--output", type=Path, required=True, help="folder of the mixed text")
    arguments = parser.parse_args()
    rng = random.Random(0)
    lines: list[str] = []
    for source, weight in WEIGHTS.items():
        found = list(sentences(arguments.data / source, weight, rng))
        print(f"{source}: {sum(len(line.split()) for line in found):,} tokens")
        lines += found
    rng.shuffle(lines)
    arguments.output.mkdir(parents=True)
    for number in range(_FILES):
        part = "".join(lines[number::_FILES])
        (arguments.output / f"{number:02}.txt").write_text(part, encoding="utf-8")


if __name__ == "__main__":
    main()
