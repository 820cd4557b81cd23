"""Trains the task models of docs/results.md, and collects their scores.

    python benchmarks/task_results.py train --data DATA --runs RUNS --only 'srl/*'
    python benchmarks/task_results.py collect --runs RUNS
    python benchmarks/task_results.py tables

`train` trains what is missing in RUNS; repeat the command to resume. `collect` adds the scores to
the JSON files in docs/task_results/. `tables` prints them as Markdown.
"""

import argparse
import fnmatch
import json
import statistics
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

RESULT = "result.json"
DOCS = Path(__file__).parents[1] / "docs"
_INPUTS = {"word_vectors": "glove.txt", "lowercase": True, "elmo": "small-en"}


class Study(NamedTuple):
    """Trainings of one task with and without ELMo, and with other settings of ELMo.

    settings: of `TaskConfig`; files are relative to the folder of the data.
    seeds: number of seeds.
    shares: of the training data, for the comparison with and without ELMo.
    ablations: settings of ELMo to compare, by name; the run without a change is "with".
    ablation_share: of the training data, for these.
    """

    settings: dict[str, Any]
    seeds: int = 3
    shares: tuple[float, ...] = (1.0,)
    ablations: Mapping[str, dict[str, Any]] = types.MappingProxyType({})
    ablation_share: float = 1.0


STUDIES = {
    "squad": Study(
        {
            "task": "squad",
            "train": ["squad/train.json"],
            "dev": ["squad/dev.json"],
            **_INPUTS,
            "placement": "both",
            "mix_l2": 0,
            "units": 60,
            "max_tokens": 400,
            "ema": 0.99,
            "epochs": 16,
            "patience": 3,
        },
        ablations={
            "input": {"placement": "input"},
            "output": {"placement": "output"},
            "lambda 1": {"mix_l2": 1},
            "lambda 0.001": {"mix_l2": 0.001},
            "top": {"mix": "top"},
        },
        ablation_share=0.25,
    ),
    "srl": Study(
        {
            "task": "srl",
            "train": ["srl/train.gold_conll"],
            "dev": ["srl/dev.gold_conll"],
            **_INPUTS,
            "units": 100,
            "model_options": ["num_layers=4"],
            "batch_size": 64,
            "clip_norm": 1,
            "epochs": 8,
            "patience": 3,
        },
        shares=(0.01, 0.05, 0.25, 1.0),
        ablations={
            "both": {"placement": "both"},
            "output": {"placement": "output"},
            "lambda 1": {"mix_l2": 1},
            "top": {"mix": "top"},
        },
        ablation_share=0.25,
    ),
    "litbank": Study(
        {
            "task": "coref",
            "train": ["coref/litbank/train/*.conll"],
            "dev": ["coref/litbank/dev/*.conll"],
            **_INPUTS,
            "mix_l2": 0.1,
            "units": 100,
            "model_options": ["span_ratio=0.25", "max_antecedents=100", "mention_loss=0.1"],
            "epochs": 10,
            "patience": 6,
        },
    ),
}
# An epoch of a small share has few steps.
EPOCHS = {0.01: 60, 0.05: 30, 0.25: 12}


class Run(NamedTuple):
    """One training."""

    study: str
    variant: str
    share: float
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Run":
        """The run of a result."""
        return cls(*(row[field] for field in cls._fields))

    @property
    def name(self) -> str:
        """The folder of the run below that of all runs."""
        variant = self.variant.replace(" ", "_")
        return f"{self.study}/{variant}_share_{self.share:g}_seed_{self.seed}"


def runs_of(name: str, study: Study) -> Iterator[Run]:
    """The trainings of a study, the first seed of all first."""
    for seed in range(study.seeds):
        for share in study.shares:
            yield Run(name, "without", share, seed)
            yield Run(name, "with", share, seed)
        if study.ablation_share not in study.shares:
            yield Run(name, "with", study.ablation_share, seed)
            yield Run(name, "without", study.ablation_share, seed)
        for variant in study.ablations:
            yield Run(name, variant, study.ablation_share, seed)


def config_of(run: Run, data: Path, runs: Path) -> Any:
    """The configuration of a training."""
    from elmo_tf.trainers.tasks.config import TaskConfig

    study = STUDIES[run.study]
    settings = {**study.settings, **study.ablations.get(run.variant, {})}
    if run.variant == "without":
        settings |= {"elmo": None, "placement": "input"}
    for name in ("train", "dev"):
        files = [file for pattern in settings[name] for file in sorted(data.glob(pattern))]
        settings[name] = tuple(map(str, files))
    settings["word_vectors"] = str(data / settings["word_vectors"])
    if run.share in EPOCHS:
        settings["epochs"] = EPOCHS[run.share]
    workdir = str(runs / run.name)
    return TaskConfig(**settings, share=run.share, seed=run.seed, workdir=workdir, resume=True)


def train(data: Path, runs: Path, patterns: list[str]) -> None:
    """Trains what is missing. Scores are computed from a file of predictions."""
    import keras

    for name, study in STUDIES.items():
        for run in runs_of(name, study):
            is_wanted = any(fnmatch.fnmatch(run.name, pattern) for pattern in patterns)
            if is_wanted and not (runs / run.name / RESULT).is_file():
                logging.info("Training %s.", run.name)
                result = result_of(run, config_of(run, data, runs))
                (runs / run.name / RESULT).write_text(json.dumps(result, indent=1) + "\n")
                keras.utils.clear_session()  # frees the previous model


def result_of(run: Run, config: Any) -> dict[str, Any]:
    """Trains a model, and returns its scores, times and mixing weights."""
    from elmo_tf.trainers.tasks.answering import evaluate_task
    from elmo_tf.trainers.tasks.training import train_task
    from elmo_tf.trainers.tasks.workdir import load_model

    record = train_task(config, cache_all=True)
    predictions = Path(config.workdir, "predictions")
    scores = evaluate_task(config.workdir, config.dev, predictions, overwrite=True)
    if config.task == "coref":
        scores["without singletons"] = scores_without_singletons(config.dev, predictions)
    elmo = load_model(config.workdir)[0].elmo
    learns_mix = elmo is not None and not elmo.top_only
    mixes = [mix.mixing_weights() for mix in elmo.mixes] if learns_mix else []
    return {
        **run._asdict(),
        "scores": brief(scores),
        "epoch": record["best"]["epoch"],
        "epochs": len(record["epochs"]),
        "seconds": statistics.median(epoch["seconds"] for epoch in record["epochs"]),
        "mixes": [{"shares": shares.tolist(), "scale": float(scale)} for shares, scale in mixes],
    }


def scores_without_singletons(files: list[str], predictions: Path) -> dict[str, Any]:
    """The scores of coreference if entities of one mention do not count, as in OntoNotes."""
    from elmo_tf.evaluation.coreference_scores import coreference_scores
    from elmo_tf.tasks.data.coreference import read_documents

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
    for name in ("muc", "b_cubed", "ceaf_e"):
        if name in scores:
            found[name] = scores[name]["f1"]
    if "without singletons" in scores:
        found["without singletons"] = brief(scores["without singletons"])
    return found


def collect(runs: Path) -> None:
    """Adds the results of all finished runs to docs/task_results/, or replaces them there."""
    for name, study in STUDIES.items():
        output = DOCS / "task_results" / f"{name}.json"
        known = {Run.of(row): row for row in results_of(name)}
        files = [runs / run.name / RESULT for run in runs_of(name, study)]
        rows = [json.loads(file.read_text()) for file in files if file.is_file()]
        known.update((Run.of(row), row) for row in rows)
        if known:
            ordered = [known[run] for run in sorted(known)]
            content = {"settings": study.settings, "runs": ordered}
            output.write_text(json.dumps(content, indent=1) + "\n")
            print(f"{name}: {len(rows)} new, {len(known)} in total")


def results_of(study: str) -> list[dict[str, Any]]:
    """The collected results of a study."""
    file = DOCS / "task_results" / f"{study}.json"
    return json.loads(file.read_text())["runs"] if file.is_file() else []


def tables() -> None:
    """Prints a table per study: mean and standard deviation over the seeds, in percent."""
    for study in STUDIES:
        cells: dict[tuple[str, float], list[dict[str, Any]]] = {}
        for row in results_of(study):
            cells.setdefault((row["variant"], row["share"]), []).append(row)
        print(f"\n{study}\n")
        for (variant, share), rows in cells.items():
            names = {**rows[0]["scores"], **rows[0]["scores"].get("without singletons", {})}
            scores = [f"{name} {_spread(rows, name)}" for name in names if name in METRICS]
            epochs = "/".join(str(row["epoch"]) for row in rows)
            seconds = statistics.median(row["seconds"] for row in rows)
            cells_of_row = [variant, f"{share:g}", *scores, epochs, f"{seconds:.0f} s"]
            print(f"| {' | '.join(cells_of_row)} |")


METRICS = ("em", "f1", "muc", "b_cubed", "ceaf_e", "average")


def _spread(rows: list[dict[str, Any]], metric: str) -> str:
    scores = [100 * row["scores"][metric] for row in rows if metric in row["scores"]]
    deviation = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.1f}{deviation}"


def main() -> None:
    """Runs a subcommand."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=("train", "collect", "tables"))
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the trainings")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="names of runs")
    arguments = parser.parse_args()
    logging.set_verbosity(logging.INFO)
    if arguments.step == "train":
        train(arguments.data, arguments.runs, arguments.only)
    elif arguments.step == "collect":
        collect(arguments.runs)
    else:
        tables()


if __name__ == "__main__":
    main()
