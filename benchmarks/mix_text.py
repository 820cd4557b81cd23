"""Mixes the training text of small-en from its sources.

    python benchmarks/mix_text.py --data DATA/lm --output mix > docs/measurements/mix.json

Each sentence occurs as often as the weight of its source says: once or twice, or with a probability
if the weight is below 1. All sentences are shuffled, and written to 32 files.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """Text of one kind. Licences: "PD" is the public domain in the US."""

    folder: str
    text: str
    licence: str
    weight: float = 1


SOURCES = (
    Source("en_wiki/train", "Wikipedia: extracts in Vibhas-hs-edu/WikiTasks", "CC BY-SA", 2),
    Source("en_novels", "novels: Project Gutenberg, in dbamman/litbank", "PD"),
    Source("en_more/wikipedia", "Wikipedia: core articles, in jason-feng/wikiVisual", "CC BY-SA"),
    Source("en_more/standard_ebooks", "books of 1605 to 1969: Standard Ebooks", "PD", 0.6),
    Source("en_more/litbank_novels", "more novels in dbamman/litbank", "PD", 0.6),
    Source("en_more/eltec_novels", "novels of 1840 to 1920: COST-ELTeC/ELTeC-eng", "PD", 0.5),
    Source("en_more/openstax_by", "textbooks: OpenStax, Rice University", "CC BY"),
    Source("en_more/us_government_web", "web pages: digital.gov, 18F", "PD, CC0"),
    Source("en_more/stack_exchange", "questions and answers: Stack Exchange", "CC BY-SA"),
    Source("en_more/schema_guided_dialogue", "dialogue: Google's DSTC8", "CC BY-SA", 0.5),
    Source("en_more/us_presidents", "speeches of US presidents, in nltk/nltk_data", "PD"),
    Source("en_more/wikinews", "news: Wikinews, in vanatteveldt/wikinews", "CC BY"),
    Source("en_more/children_stories", "stories: Pratham Books, African Storybook", "CC BY"),
    Source("en_more/tatoeba", "everyday sentences: Tatoeba", "CC BY"),
)
_FILES = 32


def sentences(folder: Path, weight: float, rng: random.Random) -> Iterator[str]:
    """The lines of a source, each as often as its weight says."""
    for file in sorted(folder.glob("*.tok")):
        for line in file.read_text("utf-8").rstrip("\n").split("\n"):
            yield from [line + "\n"] * (int(weight) + (rng.random() < weight % 1))


def main() -> None:
    """Writes the files, and prints the sources with their numbers of tokens as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--output", type=Path, required=True, help="folder of the mixed text")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True)
    rng = random.Random(0)
    lines: list[str] = []
    rows = []
    for source in SOURCES:
        found = list(sentences(arguments.data / source.folder, source.weight, rng))
        rows.append({**source._asdict(), "tokens": sum(len(line.split()) for line in found)})
        lines += found
    rng.shuffle(lines)
    for number in range(_FILES):
        part = "".join(lines[number::_FILES])
        (arguments.output / f"{number:02}.txt").write_text(part, encoding="utf-8")
    json.dump(rows, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
