"""The subcommand `plot`: logs and sentences ─► pictures."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from elmo_tf.commands.options import CHECKPOINT, add_overwrite, add_precision, positive


def add_command(add_group: Callable) -> None:
    """`elmo-tf plot`, and the kinds of pictures."""
    add = add_group(
        "plot",
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
        "draw losses, held-out perplexities and more of training runs, from their logs",
        "elmo-tf plot training run --output training.png",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="work directory of elmo-tf train, or its log.jsonl; at most 7",
    )
    parser.add_argument(
        "--by",
        choices=("step", "tokens", "time"),
        default="step",
        help="what runs along the axis; time if the log has it (step)",
    )
    parser.add_argument(
        "--smooth",
        type=positive,
        metavar="STEPS",
        help="of which means are drawn; the next odd number counts (a hundredth of all)",
    )
    _add_picture(parser)


def _plot_training(arguments: Any) -> None:
    from elmo_tf.evaluation.plots.style import check_picture, save_figure
    from elmo_tf.evaluation.plots.training_log import read_runs
    from elmo_tf.evaluation.plots.training_plot import draw_training

    check_picture(arguments.output, arguments.overwrite)
    figure = draw_training(read_runs(arguments.runs), arguments.by, arguments.smooth)
    save_figure(figure, arguments.output, arguments.overwrite, arguments.dpi)


def _add_similarity(add: Callable) -> None:
    parser = add(
        "similarity",
        _plot_similarity,
        "draw how alike the tokens of sentences are, in each layer",
        "elmo-tf plot similarity 'The bank of the river' 'A bank account' --model small-en "
        "--output similarity.png",
    )
    parser.add_argument(
        "sentences",
        nargs="+",
        metavar="SENTENCE",
        help="split at white space; at most 60 tokens in all",
    )
    parser.add_argument("--model", required=True, metavar="CHECKPOINT", help=CHECKPOINT)
    add_precision(parser)
    _add_picture(parser)


def _plot_similarity(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.plots.similarity_plot import (
        checked_sentences,
        draw_similarities,
        token_similarities,
    )
    from elmo_tf.evaluation.plots.style import check_picture, save_figure

    # Before the model is read, which takes longer.
    check_picture(arguments.output, arguments.overwrite)
    sentences = checked_sentences(arguments.sentences)
    embedder = Embedder(arguments.model, precision=arguments.precision)
    figure = draw_similarities(token_similarities(embedder, sentences))
    save_figure(figure, arguments.output, arguments.overwrite, arguments.dpi)


def _add_weights(add: Callable) -> None:
    parser = add(
        "weights",
        _plot_weights,
        "draw the share of each layer in the mixes that task models have learnt",
        "elmo-tf plot weights ner pos --output weights.png",
    )
    parser.add_argument(
        "workdirs", nargs="+", metavar="WORKDIR", help="of elmo-tf task train, with ELMo"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    _add_picture(parser)


def _plot_weights(arguments: Any) -> None:
    from elmo_tf.checkpoints.save import write_json
    from elmo_tf.evaluation.plots.mix_plot import draw_mixes, mixes_of
    from elmo_tf.evaluation.plots.style import check_picture, save_figure
    from elmo_tf.files import refuse_file
    from elmo_tf.trainers.tasks.workdir import load_model

    check_picture(arguments.output, arguments.overwrite)
    if arguments.json is not None:
        refuse_file(arguments.json, arguments.overwrite)
    mixes = []
    for workdir, name in zip(arguments.workdirs, _names(arguments.workdirs), strict=True):
        model, _ = load_model(workdir)
        if model.elmo is None:
            raise ValueError(f"{workdir} holds a model without ELMo: there is no mix to draw.")
        mixes += mixes_of(name, model.elmo, _places(model))
    save_figure(draw_mixes(mixes), arguments.output, arguments.overwrite, arguments.dpi)
    if arguments.json is not None:
        rows = [{**mix._asdict(), "shares": mix.shares.tolist()} for mix in mixes]
        write_json(arguments.json, {"mixes": rows})


def _names(folders: Sequence[str]) -> list[str]:
    """Their last parts, or all of them where these are not distinct."""
    whole = [os.path.normpath(folder) for folder in folders]
    last = [os.path.basename(folder) for folder in whole]
    return last if len(set(last)) == len(last) else whole


def _places(model: Any) -> list[str]:
    """Where the mixes of a task model go in."""
    return ["input", "output"] if len(model.elmo.mixes) == 2 else [model.token_vectors.placement]


def _add_sample_efficiency(add: Callable) -> None:
    parser = add(
        "sample-efficiency",
        _plot_sample_efficiency,
        "draw scores by share of the training data, with and without ELMo, from a sweep",
        "elmo-tf plot sample-efficiency sweep.json --output sweep.png",
    )
    parser.add_argument("sweep", metavar="FILE", help="written by elmo-tf task sweep --json FILE")
    _add_picture(parser)


def _plot_sample_efficiency(arguments: Any) -> None:
    from elmo_tf.evaluation.plots.sample_efficiency_plot import draw_sample_efficiency, read_sweep
    from elmo_tf.evaluation.plots.style import check_picture, save_figure

    check_picture(arguments.output, arguments.overwrite)
    figure = draw_sample_efficiency(read_sweep(arguments.sweep))
    save_figure(figure, arguments.output, arguments.overwrite, arguments.dpi)


def _add_picture(parser: Any) -> None:
    group = parser.add_argument_group("the picture")
    group.add_argument("--output", required=True, metavar="FILE", help=".png, .svg or .pdf")
    group.add_argument(
        "--dpi", type=positive, default=150, metavar="N", help="dots of an inch, of PNG (150)"
    )
    add_overwrite(group)
