"""The settings of a task training run."""

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from elmo_tf.config import PLACEMENTS
from elmo_tf.config_checks import check_choice
from elmo_tf.settings import (
    Text,
    Texts,
    checked_dataclass,
    resumed_settings,
    setting,
    settings_as_json,
    settings_of,
)
from elmo_tf.trainers.config import ClipNorm, MovingAverage, OverwriteRun

RECORD_FILE = "task.json"
# The tasks, and what their files hold.
TASKS = {
    "ner": "named entities (CoNLL columns)",
    "pos": "parts of speech (CoNLL columns)",
    "sst": "sentiment (bracketed trees)",
    "snli": "entailment (JSON lines)",
    "classify": "text classification (.tsv or .csv)",
    "squad": "question answering (JSON of SQuAD 1.1)",
    "srl": "semantic roles (columns of CoNLL or PropBank)",
    "coref": "coreference (CoNLL columns)",
}
# The models of each task; the first is the default.
MODELS = {
    "ner": ("crf",),
    "pos": ("crf",),
    "sst": ("bcn", "bilstm"),
    "snli": ("esim",),
    "classify": ("bcn", "bilstm"),
    "squad": ("bidaf",),
    "srl": ("srl",),
    "coref": ("coref",),
}
_MODELS = dict.fromkeys(model for models in MODELS.values() for model in models)
# Settings that only some tasks have.
_ONLY_FOR = {
    "format": ("ner", "pos"),
    "token_column": ("ner", "pos"),
    "tag_column": ("ner", "pos"),
    "scheme": ("ner",),
    "phrases": ("sst",),
    "binary": ("sst",),
    "text_column": ("classify",),
    "label_column": ("classify",),
    "max_tokens": ("squad", "srl"),
    "window": ("coref",),
    "batch_size": tuple(task for task in TASKS if task != "coref"),
}
_LEARNING_RATES = {"adam": 0.001, "adadelta": 1.0}
# As published. The models of other tasks apply dropout to all token vectors.
_ELMO_DROPOUT = {"squad": 0.5, "srl": 0.1, "coref": 0.5}


def current_mix(mix: Any) -> Any:
    """The value of `mix`. Version 0.2 called learned mixing weights "learnt"."""
    return "learned" if mix == "learnt" else mix


_Mix = Annotated[Literal["learned", "top", "average"], BeforeValidator(current_mix)]
# The name of a column, or its number.
_Column = Annotated[Text, BeforeValidator(lambda column: str(column))]


@checked_dataclass
class TaskConfig:
    """The settings of a task training run. Each field declares its range and meaning.

    `elmo` accepts everything that `elmo_tf.load_bilm` accepts.

    Raises:
        ValueError: a value is out of its range, or two settings exclude each other.

    Source: Peters et al. 2018, sections 3.3 and 4, and the supplement.
    """

    EXCLUSIVE: ClassVar = (("resume", "overwrite"), ("elmo", "vectors"))

    task: Literal[*TASKS] = setting(
        group="task and results",
        help="; ".join(f"{task}: {description}" for task, description in TASKS.items()),
    )
    train: Texts = setting(min_length=1, may_change=True, help="files of training examples")
    dev: Texts = setting(
        min_length=1,
        may_change=True,
        help="files of held-out examples; they select the best epoch",
    )
    workdir: Text = setting(
        metavar="DIR",
        may_change=True,
        help="directory for the model of the best epoch, the scores and the log",
    )
    share: float = setting(
        1.0,
        gt=0,
        le=1,
        help="fraction of the training examples to train on, above 0 and at most 1; --seed selects "
        "the examples",
    )
    resume: bool = setting(
        False,
        may_change=True,
        help="resume after the last epoch in --workdir, with its settings unless others are given; "
        "if there is no epoch yet, start from the beginning",
    )
    overwrite: OverwriteRun = False
    elmo: Any = setting(
        None,
        group="ELMo",
        metavar="CHECKPOINT",
        may_change=True,  # the contents of this and the next must not
        default_help="a model without ELMo; required for sweep",
        help="directory, archive, URL or name of a checkpoint, such as small-en",
    )
    vectors: Text | None = setting(
        None,
        metavar="[NAME=]FILE",
        may_change=True,
        default_help="none",
        help="vectors of another model in place of --elmo: .hdf5 or .parquet with one vector per "
        "token of all texts, as by elmo-tf embed; or static word vectors (text or .bin)",
    )
    placement: Literal[*PLACEMENTS] = setting(
        "input",
        help="where to concatenate ELMo: with the word vectors, with the output of the task's "
        "LSTM, or with both",
    )
    mix: _Mix = setting(
        "learned",
        help="how to combine the layers of the biLM: with trained mixing weights, the top layer "
        "only, or their average",
    )
    mix_l2: float = setting(
        0.001,
        ge=0,
        help="L2 penalty on the trained mixing weights, at least 0; with 1 the weights stay almost "
        "equal",
    )
    elmo_dropout: float | None = setting(
        None,
        metavar="RATE",
        ge=0,
        lt=1,
        default_help="0.5 for squad and coref, 0.1 for srl, 0 for others",
        help="dropout rate of the ELMo vectors, in addition to --dropout, from 0 to below 1",
    )
    layer_norm: bool = setting(False, help="normalize each layer over the batch before the mix")
    fine_tune: bool = setting(False, help="also train the biLM, which is slower")
    precision: Literal["float32", "bfloat16"] = setting(
        "float32",
        help="precision of the matrix products of a frozen biLM; bfloat16 is faster on processors "
        "with bfloat16 instructions",
    )
    cache: Text | None = setting(
        None,
        metavar="DIR",
        may_change=True,
        default_help="~/.cache/elmo_tf/layers",
        help="cache directory for the layers of a frozen biLM",
    )
    cache_gb: float = setting(
        20.0,
        metavar="GiB",
        ge=0,
        may_change=True,
        help="size limit of the cache in GiB; 0 keeps nothing after the run",
    )
    model: Literal[*_MODELS] | None = setting(
        None,
        group="model",
        default_help=", ".join(f"{models[0]} for {task}" for task, models in MODELS.items()),
        help="architecture of the task model",
    )
    word_vectors: Text | None = setting(
        None,
        may_change=True,  # its contents must not
        default_help="random initialization",
        help="initial word vectors: a text file of GloVe, word2vec or fastText; may be .gz",
    )
    word_dim: int = setting(
        50,
        ge=0,
        help="width of the trained word vectors; 0 for none; ignored with --word-vectors",
    )
    lowercase: bool = setting(False, help="look up word vectors in lower case")
    freeze_words: bool = setting(False, help="do not train the vectors of --word-vectors")
    characters: bool = setting(
        True, name="--no-characters", help="omit the character CNN of the task model"
    )
    units: int | None = setting(
        None,
        ge=1,
        default_help="as published",
        help="width of each direction of the task's LSTMs; for ner and pos, the second LSTM has "
        "half of it",
    )
    dropout: float | None = setting(
        None,
        metavar="RATE",
        ge=0,
        lt=1,
        default_help="as published: 0.5; 0.2 for squad and coref, 0.1 for srl",
        help="dropout rate of the task model, from 0 to below 1",
    )
    model_options: Texts = setting(
        (),
        name="--set",
        metavar="NAME=VALUE",
        help="further arguments of the model's class, such as num_layers=4 for srl",
    )
    format: Literal["conll", "conllu"] | None = setting(
        None,
        group="files",
        name="--input-format",
        default_help="by the file name",
        help="ner and pos: file format, columns or CoNLL-U",
    )
    token_column: int | None = setting(
        None,
        ge=1,
        default_help="1, or 2 for conllu",
        help="ner and pos: column of the tokens, counted from 1",
    )
    tag_column: int | None = setting(
        None,
        ge=1,
        default_help="the last, or 4 for conllu",
        help="ner and pos: column of the tags, counted from 1",
    )
    scheme: Literal["BIO", "IOB1", "BIOUL"] = setting(
        "BIO",
        help="ner: tagging scheme of the files; IOB1 also accepts broken BIO",
    )
    phrases: int | None = setting(
        None,
        ge=1,
        default_help="sentences only",
        help="sst: also train on phrases of at least N tokens",
    )
    binary: bool = setting(
        False, help="sst: predict two labels (negative, positive), and leave neutral sentences out"
    )
    text_column: _Column = setting(
        "text",
        metavar="NAME",
        help="classify: name of the text column, or its number, counted from 1",
    )
    label_column: _Column = setting(
        "label",
        metavar="NAME",
        help="classify: name of the label column, or its number, counted from 1; if both columns "
        "are numbers, the file has no header",
    )
    max_tokens: int | None = setting(
        None,
        ge=1,
        default_help="100 for srl, no limit for squad",
        help="squad and srl: leave out training examples with more tokens",
    )
    window: int = setting(
        50,
        ge=1,
        help="coref: number of sentences per step; longer documents give a random window of them",
    )
    optimizer: Literal[*_LEARNING_RATES] = setting(
        "adam",
        group="training",
        help="optimizer; squad and srl were published with adadelta, which needs many epochs",
    )
    learning_rate: float | None = setting(
        None,
        metavar="RATE",
        gt=0,
        default_help="0.001, or 1 for adadelta",
        help="learning rate, above 0",
    )
    ema: MovingAverage = 0.0
    clip_norm: ClipNorm = 5.0
    batch_size: int = setting(32, ge=1, help="examples per step; for coref, always one document")
    epochs: int = setting(50, ge=1, may_change=True, help="maximum number of epochs")
    patience: int = setting(
        5, ge=1, may_change=True, help="stop after N epochs without a better score on --dev"
    )
    seed: int = setting(
        0,
        ge=0,
        lt=2**32,
        help="random seed of initial weights, order of examples and dropout, from 0 to 4294967295",
    )

    def __post_init__(self):
        if self.vectors is not None:
            object.__setattr__(self, "vectors", _file_of(self.vectors))
        if self.model is None:
            object.__setattr__(self, "model", MODELS[self.task][0])
        if self.elmo_dropout is None:
            object.__setattr__(self, "elmo_dropout", _ELMO_DROPOUT.get(self.task, 0.0))
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", _LEARNING_RATES[self.optimizer])
        check_choice(self.model, "model", MODELS[self.task])
        self._check_together()
        self._check_task_settings()

    @classmethod
    def resumed(cls, workdir: str | os.PathLike, **changes: Any) -> "TaskConfig":
        """The configuration that resumes the run in a work directory.

        Args:
            workdir: holds `task.json`, from which the settings are read. Paths in it are relative
                to the current directory.
            **changes: settings that replace those of the run. `train_task` refuses changes of
                settings that must stay the same.

        Raises:
            FileNotFoundError: there is no `task.json`.
            ValueError: it is damaged, or see `TaskConfig`.
        """
        changes["workdir"] = workdir
        return cls(**resumed_settings(cls, Path(workdir, RECORD_FILE), changes))

    def _check_together(self) -> None:
        if self.task == "coref" and self.placement in ("output", "both"):
            raise ValueError(f"`placement` must be input or none for coref, not {self.placement}.")
        if self.fine_tune and self.elmo is None:
            raise ValueError("`fine_tune` needs `elmo`: without it there is no biLM to train.")
        has_source = self.elmo is not None or self.vectors is not None
        if not has_source and self.placement in ("output", "both"):
            raise ValueError(f"`placement` {self.placement} needs `elmo` or `vectors`.")
        has_embeddings = self.word_vectors is not None or self.word_dim or self.characters
        if not has_embeddings and (not has_source or self.placement in ("output", "none")):
            raise ValueError(
                "The model has no input: pass `word_dim`, `word_vectors`, `characters`, or `elmo` "
                "with `placement` input or both."
            )
        if self.freeze_words and self.word_vectors is None:
            raise ValueError("`freeze_words` needs `word_vectors`.")
        if self.fine_tune and self.placement == "none":
            raise ValueError("`fine_tune` needs a `placement` other than none.")

    def _check_task_settings(self) -> None:
        for name, tasks in _ONLY_FOR.items():
            value = getattr(self, name)
            if self.task not in tasks and value != settings_of(type(self))[name].default:
                raise ValueError(
                    f"`{name}` is only for --task {' or '.join(tasks)}. "
                    f"Received: {value!r} for {self.task}"
                )
        if self.phrases is not None and self.share < 1:
            raise ValueError(
                "`share` and `phrases` exclude each other: `share` selects sentences, `phrases` "
                "adds parts of all sentences. Pass one of them."
            )
        columns = (self.text_column, self.label_column)
        if "0" in columns:
            raise ValueError("`text_column` and `label_column` count from 1. Received: 0")
        if columns[0] == columns[1]:
            raise ValueError(
                f"`text_column` and `label_column` must differ. Received: {columns[0]!r} for both"
            )

    def as_json(self) -> dict[str, Any]:
        """All settings with their defaults resolved."""
        return settings_as_json(self)


def _file_of(vectors: str) -> str:
    """The file of `NAME=FILE`, as `elmo-tf probe --vectors` takes it; or else the argument.

    Absolute: evaluation may run in another working directory.
    """
    _, has_name, file = vectors.partition("=")
    return os.path.abspath(file if has_name and not os.path.exists(vectors) else vectors)
