"""The subcommand `plot`: logs and sentences ─► pictures."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    CHECKPOINT,
    add_choice,
    add_overwrite,
    add_precision,
    at_least_1,
)
from elmo_tf.commands.reports import short_names


def add_command(add: Callable) -> None:
    """Adds `elmo-tf plot`."""
    add = add(
        "plot",
        None,
        "draw a picture, as PNG, SVG or PDF",
        "elmo-tf plot training run --output training.png",
        "KIND",
    )
    _add_training(add)
    _add_similarity(add)
    _add_weights(add)
    _add_sample_efficiency(add)


def _add_training(add: Callable) -> None:
    parser = add(
        "training",
        _plot_training,
        "draw the losses and held-out perplexities of training runs",
        "elmo-tf plot training run --output training.png",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="work directory of elmo-tf train, or its log.jsonl; at most 7",
    )
    add_choice(parser, "--by", ("step", "tokens", "time"), "x axis; time must be in the log")
    parser.add_argument(
        "--smooth",
        **at_least_1(),
        help="draw moving averages over N steps (default: a hundredth of all steps)",
    )
    _add_picture(parser)


def _plot_training(arguments: Any) -> None:
    from elmo_tf.evaluation.plots.training import draw_training, read_log

    save = _saver(arguments)
    names = short_names(arguments.runs)
    runs = {name: read_log(run) for name, run in zip(names, arguments.runs, strict=True)}
    save(draw_training(runs, arguments.by, arguments.smooth))


def _add_similarity(add: Callable) -> None:
    parser = add(
        "similarity",
        _plot_similarity,
        "draw the similarity of the tokens of sentences, in each layer",
        "elmo-tf plot similarity 'The bank of the river' 'A bank account' --model small-en "
        "--output similarity.png",
    )
    parser.add_argument(
        "sentences",
        nargs="+",
        metavar="SENTENCE",
        help="whitespace-separated tokens; at most 60 in total",
    )
    parser.add_argument("--model", required=True, metavar="CHECKPOINT", help=CHECKPOINT)
    add_precision(parser)
    _add_picture(parser)


def _plot_similarity(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.plots.similarity import (
        checked_sentences,
        draw_similarities,
        token_similarities,
    )

    save = _saver(arguments)
    sentences = checked_sentences(arguments.sentences)
    embedder = Embedder(arguments.model, precision=arguments.precision)
    save(draw_similarities(token_similarities(embedder, sentences)))


def _add_weights(add: Callable) -> None:
    parser = add(
        "weights",
        _plot_weights,
        "draw the mixing weights of task models",
        "elmo-tf plot weights ner pos --output weights.png",
    )
    parser.add_argument(
        "workdirs",
        nargs="+",
        metavar="WORKDIR",
        help="work directories of elmo-tf task train --elmo",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the weights there, as JSON")
    _add_picture(parser)


def _plot_weights(arguments: Any) -> None:
    from elmo_tf.evaluation.plots.mixes import draw_mixes, mixes_of
    from elmo_tf.files import refuse_file, write_json
    from elmo_tf.trainers.tasks.workdir import load_model

    save = _saver(arguments)
    if arguments.json is not None:
        refuse_file(arguments.json, arguments.overwrite)
    mixes = []
    for workdir, name in zip(arguments.workdirs, short_names(arguments.workdirs), strict=True):
        model, _ = load_model(workdir)
        if model.elmo is None:
            raise ValueError(f"{workdir} holds a model without ELMo, which has no mixing weights.")
        both = len(model.elmo.mixes) == 2
        places = ["input", "output"] if both else [model.token_vectors.placement]
        mixes += mixes_of(name, model.elmo, places)
    save(draw_mixes(mixes))
    if arguments.json is not None:
        rows = [{**mix._asdict(), "shares": mix.shares.tolist()} for mix in mixes]
        write_json(arguments.json, {"mixes": rows})


def _add_sample_efficiency(add: Callable) -> None:
    parser = add(
        "sample-efficiency",
        _plot_sample_efficiency,
        "draw the scores of a sweep by share of the training data",
        "elmo-tf plot sample-efficiency sweep.json --output sweep.png",
    )
    parser.add_argument(
        "sweep", metavar="FILE", help="results, from elmo-tf task sweep --json FILE"
    )
    _add_picture(parser)


def _plot_sample_efficiency(arguments: Any) -> None:
    from elmo_tf.evaluation.plots.sample_efficiency import draw_sample_efficiency, read_sweep

    save = _saver(arguments)
    save(draw_sample_efficiency(read_sweep(arguments.sweep)))


def _add_picture(parser: Any) -> None:
    group = parser.add_argument_group("picture")
    group.add_argument("--output", required=True, metavar="FILE", help=".png, .svg or .pdf file")
    group.add_argument("--dpi", **at_least_1(150), help="resolution of PNG, in dots per inch")
    add_overwrite(group)


def _saver(arguments: Any) -> Callable[[Any], None]:
    """Checks the output, before slower work begins. Returns a function that saves a figure."""
    from elmo_tf.evaluation.plots.style import check_picture, save_figure

    check_picture(arguments.output, arguments.overwrite)
    return lambda figure: save_figure(figure, arguments.output, arguments.overwrite, arguments.dpi)
