"""The settings with which a task model is trained."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from elmo_tf.config import PLACEMENTS
from elmo_tf.config_checks import check_choice
from elmo_tf.settings import (
    check_settings,
    normalize_settings,
    resumed_settings,
    setting,
    settings_as_json,
)

RECORD_FILE = "task.json"
# The tasks, and the models for each; the first is the default.
MODELS = {
    "ner": ("crf",),
    "pos": ("crf",),
    "sst": ("bcn", "bilstm"),
    "snli": ("esim",),
    "classify": ("bcn", "bilstm"),
}

_EXCLUSIVE = (("resume", "overwrite"),)


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """The settings with which a task model is trained. Each field declares its range and meaning.

    `elmo` may be anything that `elmo_tf.load_bilm` takes.

    Raises:
        ValueError: a value is out of its range, or two settings exclude each other.

    Source: Peters et al. 2018, sections 3.3 and 4, and the supplement.
    """

    task: str = setting(
        group="task and results",
        choices=tuple(MODELS),
        help="named entities or parts of speech (CoNLL columns), sentiment (bracketed trees), "
        "entailment (JSON lines), or text classification (.tsv, .csv)",
    )
    train: tuple[str, ...] = setting(metavar="FILE", may_change=True, help="training examples")
    dev: tuple[str, ...] = setting(
        metavar="FILE", may_change=True, help="held-out examples; they choose the best epoch"
    )
    workdir: str = setting(
        metavar="DIR", may_change=True, help="directory for the model, its scores and the log"
    )
    share: float = setting(
        1.0, above=0, most=1, help="part of --train to train on, drawn by the seed"
    )
    resume: bool = setting(
        False,
        may_change=True,
        help="resume after the last epoch in --workdir, with its settings unless others are given",
    )
    overwrite: bool = setting(False, may_change=True, help="delete the results in --workdir")
    elmo: Any = setting(
        None,
        group="ELMo",
        metavar="CHECKPOINT",
        usual="a model without ELMo",
        help="directory, zip, URL or name of a checkpoint, such as small-en",
    )
    placement: str = setting(
        "input",
        choices=tuple(PLACEMENTS),
        help="where ELMo is concatenated: to the word vectors, to the output of the task's LSTM, "
        "or both",
    )
    mix: str = setting(
        "learnt",
        choices=("learnt", "top", "average"),
        help="learned mixing weights, the top layer, or the average of all layers",
    )
    mix_l2: float = setting(
        0.001, least=0, help="L2 penalty on the mixing weights; 1 keeps them almost equal"
    )
    elmo_dropout: float = setting(0.5, least=0, below=1, help="dropout rate of the ELMo vectors")
    layer_norm: bool = setting(False, help="normalize each layer over the batch before the mix")
    fine_tune: bool = setting(False, help="train the biLM too, which is slower")
    precision: str = setting(
        "float32",
        choices=("float32", "bfloat16"),
        help="precision of the products of a frozen biLM",
    )
    cache: str | None = setting(
        None,
        metavar="DIR",
        may_change=True,
        usual="~/.cache/elmo_tf/layers",
        help="directory for the layers of a frozen biLM",
    )
    cache_gb: float = setting(
        20.0,
        metavar="GB",
        least=0,
        may_change=True,
        help="size limit of the cache; 0 keeps nothing after the run",
    )
    model: str | None = setting(
        None,
        group="model",
        choices=tuple(dict.fromkeys(model for models in MODELS.values() for model in models)),
        usual="crf for ner and pos, bcn for sst and classify, esim for snli",
        help="architecture",
    )
    word_vectors: str | None = setting(
        None, metavar="FILE", help="initial word vectors: GloVe or word2vec in text format"
    )
    word_dim: int = setting(50, least=0, help="width of learned word vectors; 0 for none")
    lowercase: bool = setting(False, help="look up words in lower case")
    freeze_words: bool = setting(False, help="keep the vectors of --word-vectors fixed")
    characters: bool = setting(
        True, option="--no-characters", help="leave out the character CNN of the task model"
    )
    units: int | None = setting(
        None,
        least=1,
        usual="as published",
        help="width of the task's LSTMs; the second LSTM of ner and pos has half",
    )
    dropout: float = setting(0.5, least=0, below=1, help="dropout rate of the task model")
    format: str | None = setting(
        None,
        group="files",
        option="--input-format",
        choices=("conll", "conllu"),
        usual="by the file name",
        help="format of the files of ner and pos",
    )
    token_column: int | None = setting(
        None, least=1, usual="1, or 2 of .conllu", help="column of the tokens, from 1"
    )
    tag_column: int | None = setting(
        None, least=1, usual="the last, or 4 of .conllu", help="column of the tags, from 1"
    )
    scheme: str = setting(
        "BIO",
        choices=("BIO", "IOB1", "BIOUL"),
        help="tagging scheme of ner; IOB1 also accepts broken BIO",
    )
    phrases: int | None = setting(
        None, least=1, help="of sst: also train on phrases of at least N tokens"
    )
    binary: bool = setting(False, help="of sst: two labels, without neutral sentences")
    text_column: str = setting(
        "text",
        metavar="NAME",
        help="of classify: name of the text column, or its number from 1",
    )
    label_column: str = setting(
        "label",
        metavar="NAME",
        help="of classify: name of the label column, or its number from 1; with two numbers, the "
        "file has no header",
    )
    learning_rate: float = setting(0.001, group="training", above=0, help="learning rate of Adam")
    clip_norm: float = setting(5.0, above=0, help="limit of the global gradient norm")
    batch_size: int = setting(32, least=1, help="examples per step")
    epochs: int = setting(50, least=1, may_change=True, help="largest number of epochs")
    patience: int = setting(
        5, least=1, may_change=True, help="stop after this many epochs without a better score"
    )
    seed: int = setting(
        0, least=0, below=2**32, help="seed of initial weights, order of examples and dropout"
    )

    def __post_init__(self):
        for name in ("text_column", "label_column"):
            object.__setattr__(self, name, str(getattr(self, name)))
        normalize_settings(self)
        check_settings(self, _EXCLUSIVE)
        for name in ("train", "dev"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must name at least one file.")
        if self.model is None:
            object.__setattr__(self, "model", MODELS[self.task][0])
        check_choice(self.model, "model", MODELS[self.task])
        self._check_together()
        self._check_of_task()

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
        return cls(**resumed_settings(cls, Path(workdir, RECORD_FILE), changes, _EXCLUSIVE))

    def _check_together(self) -> None:
        if self.fine_tune and self.elmo is None:
            raise ValueError("`fine_tune` needs `elmo`: without it there is no biLM to train.")
        if self.elmo is None and self.placement in ("output", "both"):
            raise ValueError(f"`placement` {self.placement} needs `elmo`.")
        has_words = self.word_vectors is not None or self.word_dim or self.characters
        if not has_words and (self.elmo is None or self.placement in ("output", "none")):
            raise ValueError(
                "The model has no input: pass `word_dim`, `word_vectors`, `characters`, or `elmo` "
                "at the input."
            )
        if self.freeze_words and self.word_vectors is None:
            raise ValueError("`freeze_words` needs `word_vectors`.")
        if self.fine_tune and self.placement == "none":
            raise ValueError("`fine_tune` needs a `placement`.")

    def _check_of_task(self) -> None:
        """Refuses settings of other tasks."""
        if self.task != "sst" and (self.phrases is not None or self.binary):
            raise ValueError("`phrases` and `binary` are for the task sst.")
        if self.phrases is not None and self.share < 1:
            raise ValueError(
                "`share` draws sentences, and `phrases` takes parts of all of them: pass one."
            )
        if self.task != "ner" and self.scheme != "BIO":
            raise ValueError("`scheme` is for the task ner.")
        if self.task != "classify" and (self.text_column, self.label_column) != ("text", "label"):
            raise ValueError("`text_column` and `label_column` are for the task classify.")
        if "0" in (self.text_column, self.label_column):
            raise ValueError("`text_column` and `label_column` count from 1. Received: 0")
        if self.text_column == self.label_column:
            raise ValueError(
                "`text_column` and `label_column` must differ. "
                f"Received: {self.text_column!r} for both"
            )
        columns = (self.format, self.token_column, self.tag_column)
        if self.task not in ("ner", "pos") and any(one is not None for one in columns):
            raise ValueError(
                "`format`, `token_column` and `tag_column` are for the tasks ner and pos."
            )

    def as_json(self) -> dict[str, Any]:
        """All settings as they were resolved."""
        return settings_as_json(self)
