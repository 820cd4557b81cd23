"""Runs the commands of docs/tutorials/another_language.md, and measures what it reports.

    python benchmarks/german.py --data DATA --runs RUNS
    python benchmarks/results.py pages

Trains two biLMs on German novels: one from random weights, one from small-en. Repeat the command to
resume.
"""

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

from results import run_command, write_measurement

_SHAPE = Path(__file__).parents[1] / "saved_models" / "small_en" / "options.json"
_STARTS = {"random weights": ("--options", _SHAPE), "small-en": ("--from", "small-en")}
_SETTINGS = ("--epochs", 5, "--ema", 0.999, "--precision", "mixed_bfloat16", "--resume")
_HELD_OUT = 20  # every 20th sentence is held out: one half chooses the weights
_TEST = 5  # every 5th sentence of the treebank tests the probe


def main() -> None:
    """Tokenizes, trains and measures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the trainings")
    arguments = parser.parse_args()
    folder = arguments.runs / "german"
    folder.mkdir(parents=True, exist_ok=True)
    raw = sorted((arguments.data / "lm" / "de_novels").glob("*.txt"))
    text, vocabulary = folder / "german.txt", folder / "vocab.txt"
    begin = time.perf_counter()
    run_command("tokenize", *raw, "--language", "de", "--output", text, "--overwrite")
    seconds = time.perf_counter() - begin
    sentences = text.read_text("utf-8").splitlines(keepends=True)
    train, held_out = _parts(sentences, _HELD_OUT, folder, ("train.txt", "held_out.txt"))
    lines = held_out.read_text("utf-8").splitlines(keepends=True)
    valid, test = _parts(lines, 2, folder, ("valid.txt", "test.txt"))
    run_command("vocab", train, "--output", vocabulary, "--min-count", 2, "--overwrite")
    treebank = (arguments.data / "pos/de_gsd/de_gsd-ud-dev.conllu").read_text("utf-8")
    trees = [tree + "\n\n" for tree in re.split(r"\n\s*\n", treebank.strip())]
    tagged = _parts(trees, _TEST, folder, ("probe_train.conllu", "probe_test.conllu"))
    models = []
    for start, options in _STARTS.items():
        run = folder / start.replace(" ", "_")
        text_options = ("--corpus", train, "--vocab", vocabulary, "--valid", valid)
        run_command("train", *text_options, "--workdir", run, *options, *_SETTINGS)
        steps = [json.loads(line) for line in (run / "log.jsonl").open(encoding="utf-8")]
        tags = ("--train", tagged[0], "--test", tagged[1])
        models.append(
            {
                "start": start,
                "minutes": sum(step.get("seconds", 0) for step in steps) / 60,
                "perplexity": json.loads(run_command("evaluate", run / "best", test)),
                "probe": json.loads(run_command("probe", run / "best", *tags)),
            }
        )
    found = {
        "sentences": len(sentences),
        "tokens": sum(len(sentence.split()) for sentence in sentences),
        "words": len(vocabulary.read_text("utf-8").splitlines()),
        "tokenize": seconds,
        "models": models,
    }
    write_measurement("german", found)


def _parts(units: list[str], every: int, folder: Path, names: Sequence[str]) -> list[Path]:
    """Writes two files: a second one with every n-th unit, and a first one with the others."""
    files = [folder / name for name in names]
    for file, is_second in zip(files, (False, True), strict=True):
        part = [unit for n, unit in enumerate(units, 1) if (n % every == 0) == is_second]
        file.write_text("".join(part), encoding="utf-8")
    return files


if __name__ == "__main__":
    main()
