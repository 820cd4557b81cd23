"""The settings of a pretraining run."""

import dataclasses
from typing import Any, ClassVar, Literal

from elmo_tf.config import PRESETS, BiLMConfig
from elmo_tf.settings import (
    ClipNorm,
    Count,
    MovingAverage,
    Natural,
    NonNegative,
    OverwriteRun,
    Positive,
    Rate,
    RunSettings,
    Text,
    Texts,
    changeable,
    checked_dataclass,
    setting,
    settings_as_json,
)

RECORD_FILE = "training.json"
DEFAULT_EPOCHS = 10
# Maximum size of a vocabulary that is built from the text.
MAX_TOKENS = 100_000
# The settings that a recipe decides.
RECIPES = {
    "default": {
        "batch_size": 32,
        "optimizer": "adamw",
        "schedule": "cosine",
        "warmup_steps": 200,
        "dropout": 0.0,
    },
    "paper": {
        "batch_size": 128,
        "optimizer": "adagrad",
        "schedule": "constant",
        "warmup_steps": 0,
        "dropout": 0.1,
    },
}


def _by_recipe(name: str) -> str:
    return ", ".join(f"{values[name]} in the {recipe} recipe" for recipe, values in RECIPES.items())


@checked_dataclass
class PretrainConfig(RunSettings):
    """The settings of a pretraining run. Each field declares its type, range and meaning.

    A setting that is None has the default that its help names. The defaults suit runs
    on one machine; `recipe="paper"` selects the published settings.

    Raises:
        ValueError: a value is out of its range, or two settings exclude each other.

    Source: Peters et al. 2018; the training script of the original.
    """

    RECORD: ClassVar = RECORD_FILE
    EXCLUSIVE: ClassVar = (
        ("preset", "options"),
        ("start_from", "word_input"),
        ("start_from", "tie_softmax"),
        ("start_from", "forward_only"),
        ("steps", "epochs"),
        ("resume", "overwrite"),
    )

    # The text itself must not change, see `check_corpus`, nor the shape of the biLM.
    corpus: Texts = changeable(
        min_length=1,
        group="text and results",
        metavar="GLOB",
        help="training text: files or patterns, one tokenized sentence per line; .gz is "
        "decompressed",
    )
    vocab: Text | None = changeable(
        None,
        "vocabulary file, written by elmo-tf vocab",
        default_help=f"the {MAX_TOKENS:,} most frequent tokens of the text, without those that "
        "occur once",
        kw_only=True,
    )
    workdir: Text = changeable(
        metavar="DIR", help="directory for all results; it becomes a checkpoint directory"
    )
    input_format: Literal["text", "fasta"] | None = changeable(
        None,
        "format of --corpus and --valid; fasta: protein sequences, a token per residue",
        default_help="by the file name",
    )
    valid: Texts = changeable(
        (),
        "held-out text, in the format of --corpus; its perplexity is measured, and the best "
        "weights are kept in best/",
        metavar="GLOB",
    )
    preset: Literal[*PRESETS] | None = changeable(
        None, "size of the biLM", group="model", default_help="small, without --options and --from"
    )
    options: Any = setting(None, "options.json with the shape of the biLM, instead of --preset")
    start_from: Text | None = changeable(
        None,
        "checkpoint whose shape and weights to start from: directory, archive, URL or name, "
        "such as small-en; tokens in both vocabularies keep their softmax weights",
        metavar="CHECKPOINT",
        name="--from",
        default_help="random initialization",
    )
    word_input: bool = changeable(
        False, "read tokens from an embedding table instead of characters"
    )
    tie_softmax: bool = changeable(False, "with --word-input: use one table for input and softmax")
    forward_only: bool = changeable(False, "train the forward direction only")
    # The settings that it decides are recorded.
    recipe: Literal[*RECIPES] = changeable(
        "default",
        "defaults of the settings below: default suits one machine, paper has the published values",
        group="optimization",
    )
    steps: Count | None = changeable(
        None, "total number of steps, including those before a resume", default_help="by --epochs"
    )
    epochs: Positive | None = changeable(
        None,
        "number of passes through the corpus, above 0; may be a fraction",
        default_help=f"{DEFAULT_EPOCHS}, without --steps",
    )
    batch_size: Count | None = setting(
        None,
        "text streams processed in parallel (batch rows), of all replicas together",
        default_help=_by_recipe("batch_size"),
    )
    unroll: Count = setting(20, "tokens of each batch row per step")
    accumulate: Count = changeable(
        1,
        "number of parts in which a batch is computed, one after the other, to save memory; "
        "must divide --batch-size",
    )
    num_sampled: Count = changeable(8192, "negative samples of the softmax, per direction and step")
    optimizer: Literal["adagrad", "adam", "adamw"] | None = setting(
        None, "optimizer of all weights", default_help=_by_recipe("optimizer")
    )
    learning_rate: Positive | None = setting(
        None,
        "highest learning rate, above 0",
        default_help="0.2 for adagrad, 0.001 for adam; for adamw, 0.002 with --from, or else 0.002 "
        "to 0.01 by the number of LSTM cells and steps",
    )
    schedule: Literal["constant", "inverse_sqrt", "cosine"] | None = setting(
        None,
        "learning rate schedule after the warm-up; cosine ends at a tenth of the highest rate",
        default_help=_by_recipe("schedule"),
    )
    warmup_steps: Natural | None = setting(
        None,
        "steps during which the learning rate rises linearly, at most half of all steps; 0 "
        "for no warm-up",
        default_help=_by_recipe("warmup_steps"),
    )
    weight_decay: NonNegative = setting(
        0.0,
        "weight decay of --optimizer adamw, at least 0; each step multiplies it by the "
        "learning rate",
    )
    dropout: Rate | None = setting(
        None, "dropout rate of the biLM, from 0 to below 1", default_help=_by_recipe("dropout")
    )
    clip_norm: ClipNorm = 10.0
    ema: MovingAverage = 0.0
    precision: Literal["float32", "mixed_bfloat16"] = setting(
        "float32",
        "precision of matrix products; mixed_bfloat16 is faster on processors and GPUs with "
        "bfloat16 instructions",
    )
    seed: int = setting(
        0,
        "random seed of initial weights, text order, dropout and negative samples, from 0 to "
        "2147483647",
        ge=0,
        lt=2**31,
    )
    eval_every: Count | None = changeable(
        None,
        "steps between two evaluations of --valid",
        group="saving and monitoring",
        default_help="a tenth of all steps",
    )
    save_every: Count = changeable(1000, "steps between two saves")
    save_minutes: Positive | None = changeable(
        None,
        "also save when this many minutes, above 0, have passed since the last save",
        default_help="off",
    )
    tensorboard: bool = changeable(
        False, "write losses, gradient norms and learning rates for TensorBoard"
    )
    resume: bool = changeable(
        False,
        "resume from the last save in --workdir, with its settings unless others are given; "
        "if there is no save yet, start from the beginning",
    )
    overwrite: OverwriteRun = False

    def __post_init__(self):
        self._fill(**RECIPES[self.recipe])
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                "`weight_decay` is for the optimizer adamw. "
                f"Received: {self.weight_decay} with {self.optimizer}"
            )
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"`batch_size` must be a multiple of `accumulate`, {self.accumulate}. "
                f"Received: {self.batch_size}"
            )
        if self.schedule == "inverse_sqrt" and not self.warmup_steps:
            raise ValueError("The schedule inverse_sqrt needs `warmup_steps` of at least 1.")
        if self.tie_softmax and not self.word_input:
            raise ValueError("`tie_softmax` needs `word_input`, whose table the softmax shares.")

    def bilm_config(self, num_tokens: int) -> BiLMConfig:
        """The shape of the biLM by `preset` or `options`; `start_from` is ignored.

        Args:
            num_tokens: int >= 1. Size of the vocabulary.

        Raises:
            ValueError: the options are wrong.
        """
        if self.options is not None:
            config = BiLMConfig.from_options(self.options)
        else:
            config = BiLMConfig.preset(self.preset or "small")
        char_cnn = None if self.word_input else config.char_cnn
        return dataclasses.replace(
            config,
            char_cnn=char_cnn,
            num_tokens=num_tokens if char_cnn is None or config.num_tokens is not None else None,
            bidirectional=config.bidirectional and not self.forward_only,
            tie_softmax=config.tie_softmax or self.tie_softmax,
        )

    def as_json(self, shape: BiLMConfig) -> dict[str, Any]:
        """All settings with their defaults resolved, for `training.json`."""
        return {**settings_as_json(self), "options": shape.to_options()}
