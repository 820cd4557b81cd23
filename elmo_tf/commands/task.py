"""The subcommands of `task`: task models, trained on labeled files and a biLM's vectors."""

from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from elmo_tf.commands.options import (
    InputFormat,
    ModelDirectory,
    ModelVersion,
    Overwrite,
    ResultFormat,
    TokenColumn,
    TokenizerName,
    WrongCallError,
    markdown_table,
    percent,
    print_json,
    print_results,
    stdin_in_a_file,
)
from elmo_tf.tasks.config import TaskConfig

_Config = Annotated[TaskConfig, Parameter(name="*")]
_Workdir = Annotated[str, Parameter(help="work directory of elmo-tf task train")]
_Others = Annotated[
    tuple[str, ...],
    Parameter(
        name="--with",
        help="further work directories: the models predict together, by the average of their "
        "probabilities",
    ),
]


def train(*, config: _Config) -> None:
    """Train a task model, and keep its best epoch on held-out examples."""
    from elmo_tf.trainers.tasks.training import train_task

    record = train_task(config)
    print_json({"workdir": config.workdir, **record["best"]})


def evaluate(
    workdir: _Workdir,
    files: Annotated[tuple[str, ...], Parameter(help="labeled files")],
    /,
    *,
    others: _Others = (),
    output: str | None = None,
    tokenizer: TokenizerName = None,
    overwrite: Overwrite = False,
) -> None:
    """Evaluate a task model on labeled files.

    Args:
        output: write the predictions, as elmo-tf task predict does.
    """
    from elmo_tf.trainers.tasks.predict import evaluate_task

    print_json(evaluate_task((workdir, *others), files, output, overwrite, tokenizer))


def predict(
    workdir: _Workdir,
    input: str,
    output: str,
    /,
    *,
    others: _Others = (),
    input_format: InputFormat = None,
    token_column: TokenColumn = None,
    probabilities: bool = False,
    tokenizer: TokenizerName = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the labels that a task model predicts for a file.

    Args:
        input: one sentence per line, tokenized, or raw for classify trained with --tokenize; or a
            file of the task, whose labels are ignored
            (sst: text; classify: .csv, .tsv, .jsonl or text; snli: JSON lines, .tsv or .csv; squad:
            JSON; srl: also columns with roles; coref: columns, or text with an empty line between
            documents).
        output: columns of tokens and tags (sst, classify: tab-separated labels and texts; snli:
            JSON lines; squad: JSON of ids and answers; srl: props of CoNLL-2005, and the tokens in
            OUTPUT.words; coref: columns with entities in brackets).
        probabilities: sst, classify and snli: write JSON lines with the probability of each label.
    """
    from elmo_tf.trainers.tasks.predict import predict_task

    with stdin_in_a_file([input]) as (file,):
        num_examples = predict_task(
            *((workdir, *others), file, output),
            format=input_format,
            token_column=token_column,
            probabilities=probabilities,
            overwrite=overwrite,
            tokenizer=tokenizer,
        )
    print_json({"output": output, "examples": num_examples})


def export(
    workdir: _Workdir,
    directory: ModelDirectory,
    /,
    *,
    others: _Others = (),
    version: ModelVersion = 1,
    overwrite: Overwrite = False,
) -> None:
    """Export a task model as a SavedModel: strings in, labels out."""
    from elmo_tf.saved_models.exporting.task_exporting import export_task
    from elmo_tf.tasks import PropositionTagger, load_task
    from elmo_tf.tasks.semantic_roles.predicates import has_predicate_tagger

    workdirs = workdir, *others
    finds_predicates = all(map(has_predicate_tagger, workdirs))
    model = PropositionTagger.load(*workdirs) if finds_predicates else load_task(*workdirs)
    print(export_task(model, directory, version, overwrite))


def sweep(
    *,
    config: _Config,
    shares: tuple[float, ...] = (1.0,),
    seeds: PositiveInt = 5,
    format: ResultFormat = None,
) -> None:
    """Train with and without ELMo, for several seeds and shares of the data.

    --elmo is required: each seed is trained with it and without. --workdir gets one directory per
    training; a sweep that is repeated reuses those that have finished. --share, --resume and
    --overwrite are refused.

    Args:
        shares: shares of the training examples to train on, above 0, at most 1.
        seeds: seeds per share, counted from --seed.
    """
    from elmo_tf.trainers.tasks.sweep import sweep_task

    if config.resume or config.overwrite or config.share < 1:
        raise WrongCallError(
            "--share, --resume and --overwrite are not for a sweep: it takes --shares, and reuses "
            "finished trainings"
        )
    results = sweep_task(config, shares, seeds)
    print_results(results, lambda: _markdown(results), format)


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
