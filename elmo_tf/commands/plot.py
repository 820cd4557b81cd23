"""The subcommand `plot`: logs and sentences ─► pictures."""

from collections.abc import Callable
from typing import Any, Literal

from elmo_tf.commands.options import (
    CHECKPOINT,
    Overwrite,
    Precision,
    Subcommand,
    short_names,
    subcommand,
)
from elmo_tf.settings import Count, Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _PictureOptions:
    output: str = setting(group="picture", help=".png, .svg or .pdf file")
    dpi: Count = setting(150, "resolution of PNG, in dots per inch")
    overwrite: Overwrite = False

    def saver(self) -> Callable[[Any], None]:
        """Checks the output, before slower work begins. Returns a function that saves a figure."""
        from elmo_tf.evaluation.plots import check_picture, save_figure

        check_picture(self.output, self.overwrite)
        return lambda figure: save_figure(figure, self.output, self.overwrite, self.dpi)


@checked_dataclass(kw_only=True)
class _TrainingOptions(_PictureOptions):
    runs: Texts = setting(
        is_positional=True,
        metavar="RUN",
        help="work directory of elmo-tf train, or its log.jsonl; at most 7",
    )
    by: Literal["step", "tokens", "time"] = setting("step", "x axis; time must be in the log")
    smooth: Count | None = setting(
        None, "draw moving averages over N steps", default_help="a hundredth of all steps"
    )


@subcommand("elmo-tf plot training run --output training.png")
def training(options: _TrainingOptions) -> None:
    """Draw the losses and held-out perplexities of training runs."""
    from elmo_tf.evaluation.plots import draw_training, read_log

    save = options.saver()
    names = short_names(options.runs)
    runs = {name: read_log(run) for name, run in zip(names, options.runs, strict=True)}
    save(draw_training(runs, options.by, options.smooth))


@checked_dataclass(kw_only=True)
class _SimilarityOptions(_PictureOptions):
    sentences: tuple[str, ...] = setting(
        is_positional=True,
        metavar="SENTENCE",
        help="whitespace-separated tokens; at most 60 in total",
    )
    model: str = setting(metavar="CHECKPOINT", help=CHECKPOINT)
    precision: Precision = "float32"


@subcommand(
    "elmo-tf plot similarity 'The bank of the river' 'A bank account' --model small-en --output "
    "similarity.png"
)
def similarity(options: _SimilarityOptions) -> None:
    """Draw the similarity of the tokens of sentences, in each layer."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.plots import checked_sentences, draw_similarities, token_similarities

    save = options.saver()
    sentences = checked_sentences(options.sentences)
    embedder = Embedder(options.model, precision=options.precision)
    save(draw_similarities(token_similarities(embedder, sentences)))


@checked_dataclass(kw_only=True)
class _WeightsOptions(_PictureOptions):
    workdirs: Texts = setting(
        is_positional=True, metavar="WORKDIR", help="work directories of elmo-tf task train --elmo"
    )
    json: str | None = setting(None, "also write the weights there, as JSON")


@subcommand("elmo-tf plot weights ner pos --output weights.png")
def weights(options: _WeightsOptions) -> None:
    """Draw the mixing weights of task models."""
    from elmo_tf.evaluation.plots import draw_mixes, mixes_of
    from elmo_tf.files import refuse_file, write_json
    from elmo_tf.tasks import load_task
    from elmo_tf.tasks.config import TaskConfig

    save = options.saver()
    if options.json is not None:
        refuse_file(options.json, options.overwrite)
    for workdir in options.workdirs:
        config = TaskConfig.resumed(workdir)
        if config.placement == "none" or config.elmo is None:
            raise ValueError(f"{workdir} holds a model without ELMo, which has no mixing weights.")
    mixes = []
    for workdir, name in zip(options.workdirs, short_names(options.workdirs), strict=True):
        model = load_task(workdir)
        both = len(model.elmo.mixes) == 2
        places = ["input", "output"] if both else [model.token_vectors.placement]
        mixes += mixes_of(name, model.elmo, places)
    save(draw_mixes(mixes))
    if options.json is not None:
        rows = [{**mix._asdict(), "shares": mix.shares.tolist()} for mix in mixes]
        write_json(options.json, {"mixes": rows})


@checked_dataclass(kw_only=True)
class _SampleEfficiencyOptions(_PictureOptions):
    sweep: str = setting(is_positional=True, help="results, from elmo-tf task sweep --json FILE")


@subcommand("elmo-tf plot sample-efficiency sweep.json --output sweep.png")
def sample_efficiency(options: _SampleEfficiencyOptions) -> None:
    """Draw the scores of a sweep by share of the training data."""
    from elmo_tf.evaluation.plots import draw_sample_efficiency, read_sweep

    save = options.saver()
    save(draw_sample_efficiency(read_sweep(options.sweep)))


plot = Subcommand(
    "plot",
    "draw a picture, as PNG, SVG or PDF",
    "elmo-tf plot training run --output training.png",
    metavar="KIND",
    subcommands=(training, similarity, weights, sample_efficiency),
)
