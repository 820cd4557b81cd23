"""The subcommands of `plot`: logs and sentences ─► pictures."""

import dataclasses
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from elmo_tf.commands.options import Model, Precision, short_names


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _Picture:
    """The file of a picture.

    Args:
        output: .png, .svg or .pdf file.
        dpi: resolution of PNG, in dots per inch.
        overwrite: replace existing outputs.
    """

    output: str
    dpi: PositiveInt = 150
    overwrite: bool = False

    def check(self) -> None:
        """Checks the output, before slower work begins."""
        from elmo_tf.evaluation.plots import check_picture

        check_picture(self.output, self.overwrite)

    def save(self, figure: Any) -> None:
        from elmo_tf.evaluation.plots import save_figure

        save_figure(figure, self.output, self.overwrite, self.dpi)


def training(
    runs: Annotated[
        tuple[str, ...],
        Parameter(help="work directories of elmo-tf train, or their log.jsonl; at most 7"),
    ],
    /,
    *,
    picture: _Picture,
    by: Literal["step", "tokens", "time"] = "step",
    smooth: PositiveInt | None = None,
) -> None:
    """Draw the losses and held-out perplexities of training runs.

    Args:
        by: x axis; time must be in the log.
        smooth: draw moving averages over this many steps; by default a hundredth of all steps.
    """
    from elmo_tf.evaluation.plots import draw_training, read_log

    picture.check()
    logs = {name: read_log(run) for name, run in zip(short_names(runs), runs, strict=True)}
    picture.save(draw_training(logs, by, smooth))


def similarity(
    sentences: Annotated[
        tuple[str, ...], Parameter(help="whitespace-separated tokens; at most 60 in total")
    ],
    /,
    *,
    model: Model,
    picture: _Picture,
    precision: Precision = "float32",
) -> None:
    """Draw the similarity of the tokens of sentences, in each layer."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.plots import checked_sentences, draw_similarities, token_similarities

    picture.check()
    tokens = checked_sentences(sentences)
    embedder = Embedder(model, precision=precision)
    picture.save(draw_similarities(tokens, token_similarities(embedder, tokens)))


def weights(
    workdirs: Annotated[
        tuple[str, ...], Parameter(help="work directories of elmo-tf task train --elmo")
    ],
    /,
    *,
    picture: _Picture,
    json: str | None = None,
) -> None:
    """Draw the mixing weights of task models.

    Args:
        json: also write the weights there, as JSON.
    """
    from elmo_tf.evaluation.plots import draw_mixes, mixes_of
    from elmo_tf.files import refuse_file, write_json
    from elmo_tf.tasks import load_task
    from elmo_tf.tasks.config import TaskConfig

    picture.check()
    if json is not None:
        refuse_file(json, picture.overwrite)
    for workdir in workdirs:
        config = TaskConfig(workdir=workdir, resume=True)
        if config.placement == "none" or config.elmo is None:
            raise ValueError(f"{workdir} holds a model without ELMo, which has no mixing weights.")
    mixes = []
    for workdir, name in zip(workdirs, short_names(workdirs), strict=True):
        mixes += mixes_of(name, load_task(workdir).elmo)
    picture.save(draw_mixes(mixes))
    if json is not None:
        rows = [{**mix._asdict(), "shares": mix.shares.tolist()} for mix in mixes]
        write_json(json, {"mixes": rows})


def sample_efficiency(
    sweep: Annotated[str, Parameter(help="results, from elmo-tf task sweep --json FILE")],
    /,
    *,
    picture: _Picture,
) -> None:
    """Draw the scores of a sweep by share of the training data."""
    from elmo_tf.evaluation.plots import draw_sample_efficiency, read_sweep

    picture.check()
    picture.save(draw_sample_efficiency(read_sweep(sweep)))
