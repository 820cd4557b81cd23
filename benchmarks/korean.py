"""Measures what saved_models/small_ko/README.md reports, and writes this page.

    python benchmarks/korean.py --data DATA --wikipedia wiki.txt --reviews reviews.txt \
        --corpus more.txt

It measures the parts that docs/measurements/korean.json lacks. DATA is described in
docs/results.md; `elmo-tf tokenize --language ko-morph` tokenizes the texts. If the script is
interrupted, repeat the command.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import keras
from absl import logging
from results import result_of, run_command, write_measurement
from results_pages import write_pages
from studies import MEASUREMENTS
from tfidf import Texts, tfidf_accuracy

from elmo_tf import Embedder
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.evaluation import probe
from elmo_tf.files import write_json
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.tagging import read_tagged
from elmo_tf.text.tokenizers import LanguageTokenizer

NAME, TOKENIZER = "korean", "ko-morph"
SEEDS = 3
REVIEWS = (4_000, 19_000)  # for training
CHOOSING_REVIEWS = 1_000
WORDS = ("배", "눈", "말", "다리")
NEIGHBOR_TOKENS = 1_000_000


def main() -> None:
    """Measures what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--wikipedia", type=Path, required=True, help="text, for perplexity")
    parser.add_argument("--reviews", type=Path, required=True, help="text, for perplexity")
    parser.add_argument("--corpus", type=Path, required=True, help="text, for neighbors")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the results")
    parser.add_argument("--model", default="small-ko", help="name or directory of the model")
    parser.add_argument("--only", help="measure this part again: perplexity, probes, …")
    options = parser.parse_args()
    logging.set_verbosity(logging.INFO)
    work, model = options.runs / NAME, options.model
    work.mkdir(parents=True, exist_ok=True)
    parts = {
        "perplexity": lambda: {
            name: json.loads(run_command("evaluate", model, text))
            for name, text in (("Wikipedia", options.wikipedia), ("reviews", options.reviews))
        },
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


def reviews(data: Path, work: Path, model: str) -> dict[str, dict[str, Any]]:
    """The accuracy of sentiment of film reviews (NSMC) by the number of reviews for training.

    That of TF-IDF with logistic regression, and, by seed, of the task model with and without the
    biLM. The last reviews of the training file choose the epoch and the regularization.
    """
    raw, tokenized = (
        {part: read_reviews(data / f"sentiment/nsmc/{part}.csv", one) for part in ("train", "dev")}
        for one in (None, LanguageTokenizer(TOKENIZER))
    )
    found: dict[str, dict[str, Any]] = {}
    for size in REVIEWS:
        folder = work / str(size)
        folder.mkdir(exist_ok=True)
        texts, tokens = (parts_of(rows, size) for rows in (raw, tokenized))
        scores: dict[str, Any] = {
            "TF-IDF of characters": tfidf_accuracy(*texts, analyzers=["characters"]),
            "TF-IDF of morphemes": tfidf_accuracy(*tokens, analyzers=["tokens"]),
        }
        for name, part in zip(("train", "choose", "report"), tokens, strict=True):
            write_table(folder / f"{name}.csv", part)
        for variant, elmo in (("without", None), ("with", model)):
            scores[variant] = [task_accuracy(folder, variant, elmo, k) for k in range(SEEDS)]
        found[f"{size:,}"] = scores
    return found


def read_reviews(path: Path, tokenizer: LanguageTokenizer | None) -> Texts:
    """The labels and texts of reviews that are not empty, as they are or tokenized."""
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["text"].strip()]
    texts = [row["text"] for row in rows]
    if tokenizer is not None:
        texts = [joined_tokens(text, tokenizer) for text in texts]
    return Texts([row["label"] for row in rows], [[text] for text in texts])


def joined_tokens(text: str, tokenizer: LanguageTokenizer) -> str:
    """The tokens of a text, separated by spaces."""
    return " ".join(token.text for sentence in tokenizer(text) for token in sentence)


def parts_of(rows: dict[str, Texts], size: int) -> list[Texts]:
    """The reviews to train on, to choose by, and to report the scores of."""
    train = rows["train"]
    slices = slice(size), slice(-CHOOSING_REVIEWS, None)
    return [Texts(train.labels[part], train.texts[part]) for part in slices] + [rows["dev"]]


def task_accuracy(folder: Path, variant: str, elmo: str | None, seed: int) -> float:
    """The accuracy of a task model, which is trained unless it has a result."""
    workdir = folder / f"{variant}_{seed}"
    result = workdir / "result.json"
    if not result.is_file():
        config = TaskConfig(
            task="classify",
            model="bilstm",
            train=[str(folder / "train.csv")],
            dev=[str(folder / "choose.csv")],
            workdir=str(workdir),
            elmo=elmo,
            units=100,
            epochs=10,
            patience=2,
            seed=seed,
            resume=True,
        )
        write_json(result, result_of(config, [str(folder / "report.csv")]))
        keras.utils.clear_session()  # frees the previous model
    return json.loads(result.read_text("utf-8"))["scores"]["accuracy"]


def write_table(path: Path, part: Texts) -> None:
    """Writes labels and tokenized texts as CSV."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = [(label, *texts) for label, texts in zip(*part, strict=True) if texts[0]]
        csv.writer(file).writerows([("label", "text"), *rows])


def neighbors(text: Path, model: str) -> list[dict[str, Any]]:
    """The nearest tokens to two uses of ambiguous words, by the top layer."""
    options = ("--model", model, "--corpus", text, "--max-tokens", NEIGHBOR_TOKENS)
    options += ("--layer", 2, "--top", 2)
    return json.loads(run_command("neighbors", *WORDS, *options))["occurrences"]


if __name__ == "__main__":
    main()
