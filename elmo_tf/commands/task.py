"""The subcommand `task`: task models, trained on labelled files and a biLM's vectors."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_input_columns,
    add_overwrite,
    add_vectors,
    add_version,
    at_least_1,
    named_vectors,
    positive_float,
    print_json,
)
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    percent,
    report,
)
from elmo_tf.settings import add_settings, config_from_options
from elmo_tf.trainers.tasks.config import TaskConfig

_EXAMPLE = "elmo-tf task train --task ner --train train.conll --dev dev.conll --workdir ner"


def add_command(add: Callable) -> None:
    """Adds `elmo-tf task`."""
    add = add(
        "task",
        None,
        "train, evaluate and use task models, such as NER taggers",
        f"{_EXAMPLE} --elmo small-en",
        "ACTION",
    )
    _add_train(add)
    _add_evaluate(add)
    _add_predict(add)
    _add_export(add)
    _add_sweep(add)


def _add_train(add: Callable) -> None:
    parser = add(
        "train",
        _train,
        "train a task model, and keep its best epoch on held-out examples",
        f"{_EXAMPLE} --elmo small-en",
    )
    add_settings(parser, TaskConfig)


def _train(arguments: Any) -> None:
    from elmo_tf.trainers.tasks.training import train_task

    config = config_from_options(arguments.refuse_call, TaskConfig, vars(arguments))
    record = train_task(config)
    print_json({"workdir": arguments.workdir, **record["best"]})


def _add_evaluate(add: Callable) -> None:
    parser = add(
        "evaluate",
        _evaluate,
        "evaluate a task model on labelled files",
        "elmo-tf task evaluate ner test.conll",
    )
    _add_workdir(parser)
    parser.add_argument("files", nargs="+", metavar="FILE", help="labelled files")
    parser.add_argument(
        "--output", metavar="FILE", help="write the predictions, as elmo-tf task predict does"
    )
    _add_vectors(parser)
    add_overwrite(parser)


def _evaluate(arguments: Any) -> None:
    from elmo_tf.trainers.tasks.answering import evaluate_task

    print_json(
        evaluate_task(
            arguments.workdir,
            arguments.files,
            arguments.output,
            arguments.overwrite,
            arguments.vectors,
        )
    )


def _add_predict(add: Callable) -> None:
    parser = add(
        "predict",
        _predict,
        "write the labels that a task model predicts for one or several files",
        "elmo-tf task predict ner text.txt predicted.conll",
    )
    _add_workdir(parser)
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="one tokenized sentence per line, or a file of the task, whose labels are ignored"
        " (classify: .tsv, .csv or text; snli: JSON lines, .tsv or .csv; squad: JSON; srl: columns,"
        " or lines of a predicate's index, from 0, and tokens; coref: columns, or text with an"
        " empty line between documents)",
    )
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        help="the predictions for all inputs, in their order: columns of tokens and tags (sst, "
        "classify: tab-separated labels and texts; snli: JSON lines; squad: JSON of ids and "
        "answers; srl: props of CoNLL-2005, and the tokens in OUTPUT.words; coref: columns with "
        "entities in brackets)",
    )
    add_input_columns(parser)
    _add_vectors(parser)
    add_overwrite(parser)


def _predict(arguments: Any) -> None:
    from elmo_tf.trainers.tasks.answering import predict_task

    number = predict_task(
        arguments.workdir,
        arguments.inputs,
        arguments.output,
        arguments.input_format,
        arguments.token_column,
        arguments.overwrite,
        arguments.vectors,
    )
    print_json({"output": arguments.output, "examples": number})


def _add_export(add: Callable) -> None:
    parser = add(
        "export",
        _export,
        "export a task model as a SavedModel: strings in, labels out",
        "elmo-tf task export ner exported && elmo-tf serve exported --name ner",
    )
    _add_workdir(parser)
    add_version(parser)
    add_overwrite(parser)


def _export(arguments: Any) -> None:
    from elmo_tf.saved_models.exporting.task_exporting import export_task
    from elmo_tf.saved_models.versions import check_new_version
    from elmo_tf.trainers.tasks.workdir import load_model

    check_new_version(arguments.directory, arguments.version, arguments.overwrite)
    model, _ = load_model(arguments.workdir)
    print(export_task(model, arguments.directory, arguments.version, arguments.overwrite))


def _add_sweep(add: Callable) -> None:
    parser = add(
        "sweep",
        _sweep,
        "train with and without ELMo, for several seeds and shares of the data",
        "elmo-tf task sweep --task ner --train train.conll --dev dev.conll --workdir sweep --elmo "
        "small-en --shares 0.1 1 --seeds 3 --json sweep.json",
    )
    parser.epilog = (
        "--elmo is required: each seed is trained with it and without, and with each of --vectors. "
        "--workdir gets one directory per training; a sweep that is repeated reuses those that "
        "have finished."
    )
    add_settings(parser, TaskConfig, leave_out=("share", "resume", "overwrite", "vectors"))
    group = parser.add_argument_group("sweep")
    group.add_argument(
        "--shares",
        type=positive_float,
        nargs="+",
        default=[1.0],
        metavar="X",
        help="shares of --train to train on, above 0, at most 1 (default: 1)",
    )
    group.add_argument("--seeds", **at_least_1(5), help="seeds per share, counted from --seed")
    add_vectors(group)
    add_report_options(parser)


def _sweep(arguments: Any) -> None:
    from elmo_tf.trainers.tasks.sweeping import sweep_task

    check_report_options(arguments)
    # --overwrite refers to the results file: finished trainings are kept.
    options = {**vars(arguments), "overwrite": False, "vectors": None}
    config = config_from_options(arguments.refuse_call, TaskConfig, options)
    named_vectors(arguments)  # fails now if one is missing
    found = sweep_task(config, arguments.shares, arguments.seeds, dict(arguments.vectors))
    report(arguments, found, lambda: _markdown(found))


def _markdown(found: dict[str, Any]) -> str:
    names = list(found["summary"][0]["vectors"])
    rows = []
    for row in found["summary"]:
        cells = [f"{row['share']:g}", _spread(row["without"])]
        cells += [_spread(row["with"]), percent(row["error_reduction"])]
        for spread in map(row["vectors"].get, names):
            cells += [_spread(spread), percent(spread["error_reduction"])]
        rows.append(cells)
    head = ["share", f"{found['metric']} without ELMo"]
    for name in ("ELMo", *names):
        head += [f"with {name}", "relative error reduction (%)"]
    return markdown_table(head, rows)


def _spread(scores: dict[str, Any]) -> str:
    deviation = percent(scores["deviation"])
    return percent(scores["mean"]) + (f" ± {deviation}" if deviation is not None else "")


def _add_workdir(parser: Any) -> None:
    parser.add_argument("workdir", metavar="WORKDIR", help="work directory of elmo-tf task train")


def _add_vectors(parser: Any) -> None:
    parser.add_argument(
        "--vectors",
        metavar="FILE",
        help="for a model trained with --vectors: the vectors of these files (default: those of "
        "the training)",
    )
