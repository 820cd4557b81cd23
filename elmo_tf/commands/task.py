"""The subcommand `task`: task models, trained on labeled files and a biLM's vectors."""

import dataclasses
import os
from typing import Annotated, Any

from elmo_tf.commands.options import (
    InputFormat,
    ModelDirectory,
    ModelVersion,
    Overwrite,
    ReportOptions,
    Subcommand,
    TokenColumn,
    markdown_table,
    percent,
    print_json,
    subcommand,
)
from elmo_tf.settings import Count, Texts, checked_dataclass, setting
from elmo_tf.tasks.config import TaskConfig

_EXAMPLE = "elmo-tf task train --task ner --train train.conll --dev dev.conll --workdir ner"

_Workdir = Annotated[
    str, setting(is_positional=True, metavar="WORKDIR", help="work directory of elmo-tf task train")
]
_Others = Annotated[
    Texts,
    setting(
        name="--with",
        metavar="WORKDIR",
        help="further work directories: the models predict together, by the average of their "
        "probabilities",
    ),
]


@subcommand(f"{_EXAMPLE} --elmo small-en")
def train(config: TaskConfig) -> None:
    """Train a task model, and keep its best epoch on held-out examples."""
    from elmo_tf.trainers.tasks.training import train_task

    _check_paths(config)
    record = train_task(config)
    print_json({"workdir": config.workdir, **record["best"]})


@checked_dataclass(kw_only=True)
class _EvaluateOptions:
    workdir: _Workdir
    files: Texts = setting(is_positional=True, help="labeled files")
    others: _Others = ()
    output: str | None = setting(None, "write the predictions, as elmo-tf task predict does")
    overwrite: Overwrite = False


@subcommand("elmo-tf task evaluate ner test.conll")
def evaluate(options: _EvaluateOptions) -> None:
    """Evaluate a task model on labeled files."""
    from elmo_tf.trainers.tasks.predict import evaluate_task

    settings = dataclasses.asdict(options)
    workdirs = settings.pop("workdir"), *settings.pop("others")
    print_json(evaluate_task(workdirs, **settings))


@checked_dataclass(kw_only=True)
class _PredictOptions:
    workdir: _Workdir
    inputs: Texts = setting(
        is_positional=True,
        metavar="INPUT",
        help="one tokenized sentence per line, or a file of the task, whose labels are ignored"
        " (classify: .tsv, .csv or text; snli: JSON lines, .tsv or .csv; squad: JSON; srl: also"
        " columns, or lines of a predicate's index, from 0, and tokens; coref: columns, or text"
        " with an empty line between documents)",
    )
    output: str = setting(
        is_positional=True,
        metavar="OUTPUT",
        help="the predictions for all inputs, in their order: columns of tokens and tags (sst, "
        "classify: tab-separated labels and texts; snli: JSON lines; squad: JSON of ids and "
        "answers; srl: props of CoNLL-2005, and the tokens in OUTPUT.words; coref: columns with "
        "entities in brackets)",
    )
    others: _Others = ()
    input_format: InputFormat = None
    token_column: TokenColumn = None
    overwrite: Overwrite = False


@subcommand("elmo-tf task predict ner text.txt predicted.conll")
def predict(options: _PredictOptions) -> None:
    """Write the labels that a task model predicts for one or several files."""
    from elmo_tf.trainers.tasks.predict import predict_task

    settings = dataclasses.asdict(options)
    workdirs = settings.pop("workdir"), *settings.pop("others")
    names = {"input": settings.pop("inputs"), "format": settings.pop("input_format")}
    num_examples = predict_task(workdirs, **names, **settings)
    print_json({"output": options.output, "examples": num_examples})


@checked_dataclass(kw_only=True)
class _ExportOptions:
    workdir: _Workdir
    directory: ModelDirectory
    others: _Others = ()
    version: ModelVersion = 1
    overwrite: Overwrite = False


@subcommand("elmo-tf task export ner exported && elmo-tf serve exported --name ner")
def export(options: _ExportOptions) -> None:
    """Export a task model as a SavedModel: strings in, labels out."""
    from elmo_tf.saved_models.exporting.task_exporting import export_task
    from elmo_tf.saved_models.versions import check_new_version
    from elmo_tf.tasks import PropositionTagger, load_task
    from elmo_tf.tasks.semantic_roles.predicates import has_predicate_tagger

    where = options.directory, options.version, options.overwrite
    check_new_version(*where)
    workdirs = options.workdir, *options.others
    finds_predicates = all(map(has_predicate_tagger, workdirs))
    model = PropositionTagger.load(*workdirs) if finds_predicates else load_task(*workdirs)
    print(export_task(model, *where))


@checked_dataclass(kw_only=True)
class _SweepOptions(ReportOptions):
    shares: tuple[float, ...] = setting(
        (1.0,), "shares of --train to train on, above 0, at most 1", group="sweep", default_help="1"
    )
    seeds: Count = setting(5, "seeds per share, counted from --seed")


@subcommand(
    "elmo-tf task sweep --task ner --train train.conll --dev dev.conll --workdir sweep --elmo "
    "small-en --shares 0.1 1 --seeds 3 --json sweep.json",
    epilog="--elmo is required: each seed is trained with it and without. --workdir gets one "
    "directory per training; a sweep that is repeated reuses those that have finished.",
    leave_out=("share", "resume"),
)
def sweep(config: TaskConfig, options: _SweepOptions) -> None:
    """Train with and without ELMo, for several seeds and shares of the data."""
    from elmo_tf.trainers.tasks.sweep import sweep_task

    options.check_report()
    _check_paths(config)
    results = sweep_task(config, options.shares, options.seeds)
    options.report(results, lambda: _markdown(results))


task = Subcommand(
    "task",
    "train, evaluate and use task models, such as NER taggers",
    f"{_EXAMPLE} --elmo small-en",
    metavar="ACTION",
    subcommands=(train, evaluate, predict, export, sweep),
)


def _check_paths(config: TaskConfig) -> None:
    """Checks the checkpoint and the directories of a training before its files are read."""
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.files import refuse_unwritable

    refuse_unwritable(os.path.join(config.workdir, "model"))
    if config.elmo is not None:
        load_config(config.elmo)


def _markdown(results: dict[str, Any]) -> str:
    rows = [
        [
            *(f"{row['share']:g}", _spread(row["without"]), _spread(row["with"])),
            percent(row["error_reduction"]),
        ]
        for row in results["summary"]
    ]
    head = f"{results['metric']} without ELMo", "with ELMo", "relative error reduction (%)"
    return markdown_table(["share", *head], rows)


def _spread(scores: dict[str, Any]) -> str:
    deviation = percent(scores["deviation"])
    return percent(scores["mean"]) + (f" ± {deviation}" if deviation is not None else "")
