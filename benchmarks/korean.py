"""Measures what saved_models/small_ko/README.md reports, and writes this page.

    python benchmarks/korean.py --data DATA --valid valid.txt --corpus more.txt

It measures the parts that docs/measurements/korean.json lacks. DATA is described in
docs/results.md; `elmo-tf tokenize --language ko-morph` tokenizes the texts. If the script is
interrupted, repeat the command.
"""

import argparse
import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
from absl import logging
from results import result_of, run_command, write_measurement
from results_pages import write_pages
from studies import MEASUREMENTS

from elmo_tf import Embedder
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.evaluation import probe
from elmo_tf.files import write_json
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.tagging import read_tagged
from elmo_tf.text.tokenizers import LanguageTokenizer

NAME, TOKENIZER = "korean", "ko-morph"
SEEDS = 3
WORDS = ("배", "눈", "말", "다리")
NEIGHBOR_TOKENS = 1_000_000


def main() -> None:
    """Measures what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--valid", type=Path, required=True, help="held-out text, for perplexity")
    parser.add_argument("--corpus", type=Path, required=True, help="text, for neighbors")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the results")
    parser.add_argument("--model", default="small-ko", help="name or directory of the model")
    parser.add_argument("--only", help="measure this part again: perplexity, probes, …")
    options = parser.parse_args()
    logging.set_verbosity(logging.INFO)
    work, model = options.runs / NAME, options.model
    work.mkdir(parents=True, exist_ok=True)
    parts = {
        "perplexity": lambda: json.loads(run_command("evaluate", model, options.valid)),
        "probes": lambda: probes(options.data, work, model),
        "neighbors": lambda: neighbors(options.corpus, model),
        "reviews": lambda: reviews(options.data, work, model),
    }
    found = {}
    if (MEASUREMENTS / f"{NAME}.json").is_file():
        found = json.loads((MEASUREMENTS / f"{NAME}.json").read_text("utf-8"))
    for part in [options.only] if options.only else [part for part in parts if part not in found]:
        found[part] = parts[part]()
        write_measurement(NAME, found)
    write_pages()


def probes(data: Path, work: Path, model: str) -> dict[str, Any]:
    """The accuracy of parts of speech by layer: of Kaist, and of a fifth of GSD's development set.

    The other four fifths of the latter are the training data.
    """
    blocks = (data / "pos/ko_gsd/ko_gsd-ud-dev.conllu").read_text("utf-8").strip().split("\n\n")
    for name, part in (
        ("test", blocks[::5]),
        ("train", [b for i, b in enumerate(blocks) if i % 5]),
    ):
        (work / f"gsd_{name}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
    kaist = data / "pos/ko_kaist"
    files = {
        "Kaist": (kaist / "train.conllu", kaist / "dev.conllu"),
        "GSD": (work / "gsd_train.conllu", work / "gsd_test.conllu"),
    }
    source = WordMeans(Embedder(model, tokenizer="model"))
    return {
        name: probe(source, *(read_tagged(file) for file in parts)) for name, parts in files.items()
    }


def reviews(data: Path, work: Path, model: str) -> dict[str, list[float]]:
    """The accuracy of sentiment of film reviews (NSMC), with and without the model, by seed.

    One half of the development set chooses the epoch, the other half gives the score.
    """
    tokenizer = LanguageTokenizer(TOKENIZER)
    rows: dict[str, list[list[str]]] = {}
    for part in ("train", "dev"):
        with open(data / f"sentiment/nsmc/{part}.csv", encoding="utf-8") as file:
            rows[part] = [
                [row["label"], " ".join(token.text for s in tokenizer(row["text"]) for token in s)]
                for row in csv.DictReader(file)
            ]
    parts = {"train": rows["train"], "choose": rows["dev"][::2], "report": rows["dev"][1::2]}
    files = {name: write_table(work / f"{name}.csv", part) for name, part in parts.items()}
    scores: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        for variant, elmo in (("without", None), ("with", model)):
            folder = work / f"{variant}_{seed}"
            result = folder / "result.json"
            if not result.is_file():
                config = TaskConfig(
                    task="classify",
                    train=[files["train"]],
                    dev=[files["choose"]],
                    workdir=str(folder),
                    elmo=elmo,
                    units=100,
                    epochs=8,
                    patience=2,
                    seed=seed,
                    resume=True,
                )
                write_json(result, result_of(config, [files["report"]]))
                keras.utils.clear_session()
            score = json.loads(result.read_text("utf-8"))["scores"]["accuracy"]
            scores.setdefault(variant, []).append(score)
    return scores


def write_table(path: Path, rows: Iterable[Sequence[str]]) -> str:
    """Writes labels and tokenized texts as CSV; returns the path."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *(row for row in rows if row[1])])
    return str(path)


def neighbors(text: Path, model: str) -> list[dict[str, Any]]:
    """The nearest tokens to two uses of ambiguous words, by the top layer."""
    options = ("--model", model, "--corpus", text, "--max-tokens", NEIGHBOR_TOKENS)
    options += ("--layer", 2, "--top", 2)
    return json.loads(run_command("neighbors", *WORDS, *options))["occurrences"]


if __name__ == "__main__":
    main()
