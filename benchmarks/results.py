"""Measures what docs/results.md and docs/small_en.md report, and writes these pages.

    python benchmarks/results.py prepare --data DATA
    python benchmarks/results.py controls --data DATA
    python benchmarks/results.py train --data DATA --runs RUNS --only 'srl/*'
    python benchmarks/results.py analyze --data DATA
    python benchmarks/results.py speed --data DATA
    python benchmarks/results.py ensembles --data DATA --runs RUNS
    python benchmarks/results.py collect --runs RUNS
    python benchmarks/results.py pages

`prepare` writes the files that are derived from the data; benchmarks/glove.py writes
DATA/glove.6B.50d.txt. `controls` scores TF-IDF with logistic regression. `train` runs the trainings
that have a result neither in RUNS nor in docs/measurements/; if it is interrupted, repeat the
command.
`ensembles` evaluates all seeds with GloVe and small-en of a task together, if they are in RUNS.
`collect` adds the scores to the JSON files in docs/measurements/. `analyze` measures perplexity,
probes and senses, `speed` the time of `elmo-tf embed`.
`pages` writes the tables of the pages from these files.

The development set of a task is halved: one half chooses the best epoch, the scores are those of
the other half.
"""

import argparse
import fnmatch
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import logging
from results_pages import write_pages
from results_pictures import draw_pictures
from studies import (
    MEASUREMENTS,
    SEEDS,
    STUDIES,
    WITH_ELMO,
    Run,
    measured,
    results_of,
    runs_of,
    settings_of,
)
from tfidf import Texts, tfidf_accuracy

from elmo_tf.files import atomic_file, write_json

RESULT = "result.json"
TUNING = ("--epochs", 3, "--learning-rate", 0.001, "--batch-size", 16, "--num-sampled", 4096)


def prepare(data: Path) -> None:
    """Writes word vectors as text, and WikiText-2 as elmo_tf reads text."""
    vectors = json.loads((data / "glove/glove-50d-5k.json").read_text("utf-8"))
    lines = [" ".join([word, *map(str, vector)]) for word, vector in vectors.items()]
    (data / "glove.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = (data / "lm/wikitext2/valid.txt").read_text("utf-8")
    (data / "wikitext2_sentences.txt").write_text(one_sentence_per_line(text), encoding="utf-8")


def one_sentence_per_line(text: str) -> str:
    """Splits the paragraphs of WikiText, and joins numbers and compounds such as `1 @,@ 000`."""
    text = re.sub(r" @([-,.])@ ", r"\1", text)
    text = re.sub(r"( [.?!]) (?=(?:[\"'(] )?[A-Z])", r"\1\n", text)
    return "".join(line.strip() + "\n" for line in text.splitlines() if line.strip())


def halves(files: Sequence[str], folder: Path) -> list[list[str]]:
    """Divides a development set: documents, articles, premises or sentences take turns.

    Args:
        files: the files of the development set.
        folder: receives the parts of a single file.

    Returns:
        The files of the half that chooses the epoch, and of the half that is reported.
    """
    if len(files) > 1:
        return [list(files[half::2]) for half in range(2)]
    file = Path(files[0])
    text = file.read_text("utf-8")
    if file.suffix == ".json":
        content = json.loads(text)
        articles = [[one] for one in content["data"]]
        joined = _joined_articles
    elif file.suffix == ".jsonl":
        pairs = text.splitlines()
        articles = [
            list(g) for _, g in itertools.groupby(pairs, lambda x: json.loads(x)["sentence1"])
        ]
        joined = "\n".join
    elif file.suffix == ".txt":
        articles, joined = [[line] for line in text.splitlines()], "\n".join
    else:
        articles, joined = [[block] for block in _blocks(text)], "\n\n".join
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for half, name in enumerate(("choose", "report")):
        part = folder / f"{name}{file.suffix}"
        units = [unit for article in articles[half::2] for unit in article]
        with atomic_file(part) as new:  # another training may read it
            new.write_text(joined(units) + "\n", encoding="utf-8")
        parts.append([str(part)])
    return parts


def _joined_articles(articles: list[dict[str, Any]]) -> str:
    return json.dumps({"version": "1.1", "data": articles})


def _blocks(text: str) -> list[str]:
    """The parts of a text between empty lines."""
    return re.split(r"\n\s*\n", text.strip("\n"))


def train(data: Path, runs: Path, patterns: list[str], again: bool) -> None:
    """Trains what has no result, or `again` what has none in `runs`.

    Scores are computed from a file of predictions.
    """
    import keras

    from elmo_tf.tasks.config import TaskConfig

    for name in STUDIES:
        collected = {Run.of(row) for row in results_of(name)}
        for run in runs_of(name):
            folder = runs / run.name
            is_wanted = any(fnmatch.fnmatch(run.name, pattern) for pattern in patterns)
            is_known = run in collected and not again
            if not is_wanted or is_known or (folder / RESULT).is_file():
                continue
            tuned = runs / name / "tuned_bilm"
            settings = settings_of(run, data, tuned)
            if run.variant == "tuned" and not (tuned / RESULT).is_file():
                tune(name, settings, tuned)
            logging.info("Training %s.", run.name)
            settings["dev"], report = halves(settings["dev"], runs / name / "dev")
            config = TaskConfig(**settings, workdir=str(folder), resume=True)
            write_json(folder / RESULT, {**run._asdict(), **result_of(config, report)})
            keras.utils.clear_session()  # frees the previous model


def result_of(config: Any, report: list[str]) -> dict[str, Any]:
    """Trains a model, and returns its scores, times and mixing weights.

    Args:
        config: a `TaskConfig`, whose development set chooses the epoch.
        report: the files to report the scores of.
    """
    from elmo_tf.trainers import evaluate_task, load_task, train_task

    record = train_task(config)
    predictions = Path(config.workdir, "predictions")
    scores = evaluate_task(config.workdir, report, predictions, overwrite=True)
    if config.task == "coref":
        scores["without singletons"] = scores_without_singletons(report, predictions)
    elmo = load_task(config.workdir).elmo
    learns_mix = elmo is not None and not elmo.top_only
    mixes = [mix.mixing_weights() for mix in elmo.mixes] if learns_mix else []
    return {
        "scores": brief(scores),
        "chosen": record["best"]["score"],
        "epoch": record["best"]["epoch"],
        "epochs": len(record["epochs"]),
        "seconds": statistics.median(epoch["seconds"] for epoch in record["epochs"]),
        "mixes": [{"shares": shares.tolist(), "scale": float(scale)} for shares, scale in mixes],
    }


def ensembles(data: Path, runs: Path) -> None:
    """Scores the average of all seeds, for each study whose seeds are all in `runs`."""
    from elmo_tf.trainers import evaluate_task

    found = measured("ensembles") if (MEASUREMENTS / "ensembles.json").exists() else {}
    for name, study in STUDIES.items():
        seeds = [Run(name, WITH_ELMO, 1.0, seed) for seed in range(SEEDS)]
        folders = [runs / run.name for run in seeds]
        if not all((folder / RESULT).is_file() for folder in folders):
            continue
        _, report = halves(settings_of(seeds[0], data, Path())["dev"], runs / name / "dev")
        metric = study.metrics[0]
        results = [json.loads((folder / RESULT).read_text("utf-8")) for folder in folders]
        found[name] = {
            "members": [result["scores"][metric] for result in results],
            "ensemble": evaluate_task(folders, report)[metric],
        }
        logging.info("%s: %s.", name, found[name])
    write_measurement("ensembles", found)


def controls(data: Path) -> None:
    """Scores TF-IDF of characters and tokens on the tasks that classify texts."""
    found = {}
    for name in ("sst", "sst_phrases", "snli"):
        settings = settings_of(Run(name, "GloVe", 1.0, 0), data, Path())
        train, dev = labeled_texts(settings, settings["train"]), {**settings, "phrases": None}
        with tempfile.TemporaryDirectory() as folder:
            parts = [labeled_texts(dev, files) for files in halves(settings["dev"], Path(folder))]
        found[name] = tfidf_accuracy(train, *parts, ("characters", "tokens"))
        logging.info("TF-IDF, %s: %.1f.", name, 100 * found[name])
    write_measurement("tfidf", found)


def scores_without_singletons(files: list[str], predictions: Path) -> dict[str, Any]:
    """The scores of coreference if entities of one mention do not count, as in OntoNotes."""
    from elmo_tf.tasks.coreference import read_documents
    from elmo_tf.tasks.scores import coreference_scores

    gold = [document for file in files for document in read_documents(file)]
    return coreference_scores(
        *(
            [[entity for entity in one.entities if len(entity) > 1] for one in documents]
            for documents in (gold, read_documents(predictions))
        )
    )


def brief(scores: dict[str, Any]) -> dict[str, Any]:
    """The overall scores, without those of each label or role."""
    found = {name: value for name, value in scores.items() if isinstance(value, float)}
    for name in ("muc", "b_cubed", "ceaf_e", "predicates", "end_to_end"):
        if name in scores:
            found[name] = scores[name]["f1"]
    if "without singletons" in scores:
        found["without singletons"] = brief(scores["without singletons"])
    return found


def tune(name: str, settings: dict[str, Any], folder: Path) -> None:
    """Fine-tunes the biLM on the training text of a task, and measures its perplexity."""
    from elmo_tf.checkpoints.named_models import find_named_model

    model = STUDIES[name].settings["elmo"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    texts = {}
    for part in ("train", "dev"):
        texts[part] = folder.with_name(f"{part}_text.txt")
        write_texts(settings, settings[part], texts[part])
    vocabulary = find_named_model(model).folder / "vocab.txt"
    run_command(
        *("train", "--corpus", texts["train"], "--vocab", vocabulary, "--workdir", folder),
        *("--from", model, *TUNING, "--resume"),
    )
    found = {
        when: json.loads(run_command("evaluate", source, texts["dev"]))
        for when, source in (("before", model), ("after", folder))
    }
    write_json(folder / RESULT, {"study": name, **found})


def write_texts(settings: dict[str, Any], files: Sequence[str], output: Path) -> None:
    """Writes the distinct texts of the examples of a task, one per line."""
    lines = (" ".join(text) for text in task_texts(settings, files))
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def task_texts(settings: dict[str, Any], files: Sequence[str]) -> list[tuple[str, ...]]:
    """The distinct texts of the examples of a task, as tokens."""
    task, examples = read_examples(settings, files)
    return [*dict.fromkeys(tuple(text) for one in examples for text in task.texts(one))]


def labeled_texts(settings: dict[str, Any], files: Sequence[str]) -> Texts:
    """The labels and the texts of the examples of a task that classifies."""
    task, examples = read_examples(settings, files)
    texts = [[" ".join(text) for text in task.texts(one)] for one in examples]
    return Texts([str(one.label) for one in examples], texts)


def read_examples(settings: dict[str, Any], files: Sequence[str]) -> tuple[Any, list[Any]]:
    """A task, and its examples in files."""
    from elmo_tf.tasks.config import TaskConfig
    from elmo_tf.tasks.registry import TASKS

    options = {"train": ("-",), "dev": ("-",), "workdir": "-", "word_vectors": None, "elmo": None}
    config = TaskConfig(**{**settings, **options, "placement": "input"})
    task = TASKS[config.task]()
    return task, list(task.read(files, config))


def run_command(*arguments: Any) -> str:
    """Runs `elmo-tf`, and returns what it prints."""
    command = [Path(sys.executable).with_name("elmo-tf"), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def analyze(data: Path, model: str) -> None:
    """Measures perplexity, parts of speech and senses, into docs/measurements/."""
    texts = {
        "wikipedia": data / "lm/en_wiki/valid/*",
        "wikitext2": data / "lm/wikitext2/valid.txt",
        "wikitext2_sentences": data / "wikitext2_sentences.txt",
    }
    for name in ("ewt_pos", "sst", "snli", "squad", "litbank"):
        settings = settings_of(Run(name, "with", 1.0, 0), data, Path())
        texts[name] = data / f"{name}_dev_text.txt"
        write_texts(settings, settings["dev"], texts[name])
    perplexities = {}
    for name, pattern in texts.items():
        files = sorted(pattern.parent.glob(pattern.name))
        perplexities[name] = json.loads(run_command("evaluate", model, *files))
        logging.info("Perplexity on %s: %.1f.", name, perplexities[name]["average"])
    write_measurement("perplexity", perplexities)
    treebank = [data / f"pos/ewt/en_ewt-ud-{part}.conllu" for part in ("train", "dev")]
    for name, column in (("probe_upos", 4), ("probe_xpos", 5)):
        options = ("--train", treebank[0], "--test", treebank[1], "--tag-column", column)
        write_measurement(name, json.loads(run_command("probe", model, *options)))
    corpus = [data / f"wsd/semcor/semcor.brown{part}.data.xml" for part in (1, 2)]
    inventory = data / "wsd/wsd_oewn_inventory.tsv"
    options = ("--train", *corpus, "--inventory", inventory)
    test = data / "wsd/semeval2007/semeval2007.data.xml"
    found = run_command("senses", model, *options, "--test", test)
    write_measurement("senses", json.loads(found))


def measure_speed(data: Path, model: str) -> None:
    """Times `elmo-tf embed`, start included: of one sentence, and of a text in both precisions."""
    texts = sorted(data.glob("lm/en_wiki/valid/*"))
    seconds: dict[str, list[float]] = {"start": [], "float32": [], "bfloat16": []}
    with tempfile.TemporaryDirectory() as folder:
        sentence, text, output = (Path(folder, name) for name in ("one.txt", "all.txt", "v.hdf5"))
        sentence.write_text("They sat on the bank of the river .\n")
        text.write_text("".join(one.read_text("utf-8") for one in texts), encoding="utf-8")
        for _ in range(3):
            for name, times in seconds.items():
                is_start = name == "start"
                options = ("--precision", "float32" if is_start else name, "--overwrite")
                begin = time.perf_counter()
                run_command("embed", model, sentence if is_start else text, output, *options)
                times.append(time.perf_counter() - begin)
        tokens = len(text.read_text("utf-8").split())
    write_measurement("speed", {"tokens": tokens, "seconds": seconds})


def write_measurement(name: str, content: Any) -> None:
    """Writes a file in docs/measurements, without paths."""
    text = json.dumps(content, indent=1)
    text = re.sub(r'"(?:/[^"/]+)+/([^"/]+)"', r'"\1"', text)
    (MEASUREMENTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def collect(runs: Path) -> None:
    """Adds the results of all finished runs to docs/measurements/, or replaces them there."""
    for name, study in STUDIES.items():
        known = {Run.of(row): row for row in results_of(name)}
        files = [runs / run.name / RESULT for run in runs_of(name)]
        rows = [json.loads(file.read_text()) for file in files if file.is_file()]
        known.update((Run.of(row), row) for row in rows)
        if known:
            ordered = [known[run] for run in sorted(known)]
            write_measurement(name, {"settings": study.settings, "runs": ordered})
            logging.info("%s: %d results of %s, %d in total.", name, len(rows), runs, len(known))
    found = [json.loads(file.read_text()) for file in sorted(runs.glob(f"*/tuned_bilm/{RESULT}"))]
    if found:
        write_measurement("tuning", {row["study"]: row for row in found})


def main() -> None:
    """Runs a step."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    steps: dict[str, Callable[[Any], None]] = {
        "prepare": lambda arguments: prepare(arguments.data),
        "controls": lambda arguments: controls(arguments.data),
        "train": lambda arguments: train(
            arguments.data, arguments.runs, arguments.only, arguments.again
        ),
        "speed": lambda arguments: measure_speed(arguments.data, arguments.model),
        "ensembles": lambda arguments: ensembles(arguments.data, arguments.runs),
        "collect": lambda arguments: collect(arguments.runs),
        "analyze": lambda arguments: analyze(arguments.data, arguments.model),
        "pages": lambda arguments: (write_pages(), draw_pictures()),
    }
    parser.add_argument("step", choices=steps)
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the trainings")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="names of runs")
    parser.add_argument("--again", action="store_true", help="train what has a result, too")
    parser.add_argument("--model", default="small-en", help="biLM to analyze")
    arguments = parser.parse_args()
    logging.set_verbosity(logging.INFO)
    steps[arguments.step](arguments)


if __name__ == "__main__":
    main()
