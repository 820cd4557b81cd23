"""The settings of a pretraining run."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import pydantic
from cyclopts import Parameter

from elmo_tf.config import PRESETS, BiLMConfig
from elmo_tf.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Rate,
    RunSettings,
    Text,
    Texts,
    checked_dataclass,
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
        "reset_states": 0.02,
    },
    "paper": {
        "batch_size": 128,
        "optimizer": "adagrad",
        "schedule": "constant",
        "warmup_steps": 0,
        "dropout": 0.1,
        "reset_states": 0.0,
    },
}


@checked_dataclass
class PretrainConfig(RunSettings):
    """The settings of a pretraining run.

    A setting that is None has the default that is named here. The defaults suit runs on one
    machine; `recipe="paper"` selects the published settings. With `resume`, settings that are not
    given are those of the run in `workdir`.

    Args:
        corpus: training text: files or patterns, one tokenized sentence per line; .gz is
            decompressed.
        workdir: directory for all results; it becomes a checkpoint directory.
        vocab: vocabulary file, written by elmo-tf vocab; by default the 100,000 most frequent
            tokens of the text, without those that occur once; all tokens if fewer than 1,000
            are distinct.
        input_format: format of the texts; fasta: protein sequences, a token per residue; by
            default chosen by the file name.
        valid: held-out text, in the format of the corpus; its perplexity is measured, and the best
            weights are kept in best/.
        preset: size of the biLM; by default small, unless options or a checkpoint is given.
        options: options.json with the shape of the biLM, instead of a preset.
        start_from: checkpoint whose shape and weights to start from: directory, archive, URL or
            name, such as small-en; tokens in both vocabularies keep their softmax weights; by
            default the weights are randomly initialized.
        tokenizer: name of the tokenizer of the text, which the model records: see elmo-tf tokenize
            --language, or whitespace; by default what elmo-tf tokenize or vocab recorded beside the
            text or vocabulary, or that of the options or checkpoint.
        word_input: read tokens from an embedding table instead of characters.
        tie_softmax: with word_input: use one table for input and softmax.
        forward_only: train the forward direction only.
        recipe: defaults of batch_size, optimizer, schedule, warmup_steps, dropout and reset_states:
            default suits one machine (32, adamw, cosine, 200, 0, 0.02), paper has the published
            values (128, adagrad, constant, 0, 0.1, 0).
        steps: total number of steps, including those before a resume; by default by epochs.
        epochs: number of passes through the corpus, above 0; may be a fraction; by default 10,
            without steps.
        batch_size: text streams processed in parallel (batch rows), of all replicas together; by
            default that of the recipe.
        unroll: tokens of each batch row per step.
        num_sampled: negative samples of the softmax, per direction and step.
        optimizer: optimizer of all weights; by default that of the recipe.
        learning_rate: highest learning rate, above 0; by default 0.2 for adagrad; for adamw, 0.002
            from a checkpoint, or else 0.002 to 0.01 by the number of LSTM cells and steps.
        schedule: learning rate schedule after the warm-up; cosine ends at a tenth of the highest
            rate; by default that of the recipe.
        warmup_steps: steps during which the learning rate rises linearly, at most half of all
            steps; 0 for no warm-up; by default that of the recipe.
        weight_decay: weight decay of the optimizer adamw, at least 0; each step shrinks the weights
            by the learning rate times this share.
        dropout: dropout rate of the biLM, from 0 to below 1; by default that of the recipe.
        reset_states: share of the batch rows whose LSTM states are reset to zeros at each step, as
            before a sentence that is embedded; by default that of the recipe.
        clip_norm: maximum of the global gradient norm, above 0; larger gradients are scaled down.
        ema: evaluate and save a moving average of the weights, with at most this decay per step,
            such as 0.999; 0 for none.
        precision: precision of matrix products; mixed_bfloat16 is faster on processors and GPUs
            with bfloat16 instructions.
        seed: random seed of initial weights, text order, dropout and negative samples, from 0 to
            2147483647.
        eval_every: steps between two evaluations of the held-out text; by default a tenth of all
            steps.
        save_every: steps between two saves.
        new_corpus: with resume: continue with another corpus, from its beginning; epochs count from
            there.
        resume: resume from the last save in the work directory. Settings that are not given are
            those of the run; only a few may differ, such as steps, epochs and paths. If there is no
            save yet, start from the beginning.
        overwrite: delete the results in the work directory, and start from the beginning.

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
    ABSENT: ClassVar = {"reset_states": 0.0}
    # May change when a run is resumed; but not the contents of the text, see `check_corpus`, nor
    # the shape of the biLM.
    CHANGEABLE: ClassVar = (
        *("corpus", "workdir", "vocab", "input_format", "valid", "preset", "start_from"),
        *("word_input", "tie_softmax", "forward_only", "steps", "epochs"),
        *("num_sampled", "eval_every", "save_every", "new_corpus", "resume", "overwrite"),
        "precision",  # processors differ; weights and saved states are float32
    )

    corpus: Annotated[Texts, pydantic.Field(min_length=1)]
    workdir: Text
    vocab: Text | None = dataclasses.field(default=None, kw_only=True)
    input_format: Literal["text", "fasta"] | None = None
    valid: Texts = ()
    preset: Literal[*PRESETS] | None = None
    options: Any = None
    start_from: Annotated[Text | None, Parameter(name="--from")] = None
    tokenizer: Text | None = None
    word_input: bool = False
    tie_softmax: bool = False
    forward_only: bool = False
    recipe: Literal[*RECIPES] = "default"
    steps: Count | None = None
    epochs: Positive | None = None
    batch_size: Count | None = None
    unroll: Count = 20
    num_sampled: Count = 8192
    optimizer: Literal["adagrad", "adamw"] | None = None
    learning_rate: Positive | None = None
    schedule: Literal["constant", "cosine"] | None = None
    warmup_steps: Natural | None = None
    weight_decay: NonNegative = 0.0
    dropout: Rate | None = None
    reset_states: Rate | None = None
    clip_norm: Positive = 10.0
    ema: Rate = 0.0
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**31)] = 0
    eval_every: Count | None = None
    save_every: Count = 1000
    new_corpus: bool = False
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self):
        super().__post_init__()
        self._fill(**RECIPES[self.recipe])
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                "`weight_decay` is for the optimizer adamw. "
                f"Received: {self.weight_decay} with {self.optimizer}"
            )
        if self.tie_softmax and not self.word_input:
            raise ValueError("`tie_softmax` needs `word_input`, whose table the softmax shares.")
        if self.new_corpus and not self.resume:
            raise ValueError("`new_corpus` needs `resume`.")

    def bilm_config(self, num_tokens: int) -> BiLMConfig:
        """The shape by `preset` or `options`; `num_tokens` is the size of the vocabulary."""
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
