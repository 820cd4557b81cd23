"""The subcommands of `plot`: logs and sentences ─► plots."""

from typing import Annotated, Literal

from cyclopts import Parameter

from elmo_tf.commands.options import Model, Overwrite, short_names

_Picture = Annotated[str, Parameter(help=".png, .svg or .pdf file")]


def training(
    runs: Annotated[
        tuple[str, ...],
        Parameter(help="work directories of elmo-tf train, or their log.jsonl; at most 7"),
    ],
    /,
    *,
    output: _Picture,
    by: Literal["step", "tokens", "time"] = "step",
    overwrite: Overwrite = False,
) -> None:
    """Draw the losses and held-out perplexities of training runs.

    Args:
        by: x axis; time must be in the log.
    """
    from elmo_tf.evaluation.plots import draw_training, read_log, save_figure

    logs = {name: read_log(run) for name, run in zip(short_names(runs), runs, strict=True)}
    save_figure(draw_training(logs, by), output, overwrite)


def similarity(
    sentences: Annotated[
        tuple[str, ...], Parameter(help="whitespace-separated tokens; at most 60 in total")
    ],
    /,
    *,
    model: Model,
    output: _Picture,
    overwrite: Overwrite = False,
) -> None:
    """Draw the similarity of the tokens of sentences, in each layer."""
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.evaluation import plots

    tokens = plots.checked_sentences(sentences)
    cosines = plots.token_similarities(Embedder(model), tokens)
    plots.save_figure(plots.draw_similarities(tokens, cosines), output, overwrite)


def weights(
    workdirs: Annotated[
        tuple[str, ...], Parameter(help="work directories of elmo-tf task train --elmo")
    ],
    /,
    *,
    output: _Picture,
    overwrite: Overwrite = False,
) -> None:
    """Draw the mixing weights of task models."""
    from elmo_tf.evaluation.plots import draw_mixes, mixes_of, save_figure
    from elmo_tf.tasks.registry import load_task, read_runs

    for workdir in workdirs:
        config, _ = read_runs(workdir)
        if config.placement == "none" or config.elmo is None:
            raise ValueError(f"{workdir} holds a model without ELMo, which has no mixing weights.")
    mixes = []
    for workdir, name in zip(workdirs, short_names(workdirs), strict=True):
        mixes += mixes_of(name, load_task(workdir).elmo)
    save_figure(draw_mixes(mixes), output, overwrite)


def sample_efficiency(
    sweep: Annotated[str, Parameter(help="results, of elmo-tf task sweep, as JSON")],
    /,
    *,
    output: _Picture,
    overwrite: Overwrite = False,
) -> None:
    """Draw the scores of a sweep by share of the training data."""
    from elmo_tf.evaluation.plots import draw_sample_efficiency, read_sweep, save_figure

    save_figure(draw_sample_efficiency(read_sweep(sweep)), output, overwrite)
