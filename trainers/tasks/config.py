"""What a training of a task model is told: one dataclass, checked, and written beside results."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from elmo_tf.config_checks import check_bool, check_choice, check_int, check_rate
from elmo_tf.placements import PLACEMENTS
from elmo_tf.settings import resumed_settings

RECORD_FILE = "task.json"
# The tasks, and the models for each; the first is the usual one.
MODELS = {
    "ner": ("crf",),
    "pos": ("crf",),
    "sst": ("bcn", "bilstm"),
    "snli": ("esim",),
    "classify": ("bcn", "bilstm"),
}
MIXES = ("learnt", "top", "average")
PRECISIONS = ("float32", "bfloat16")
# What may differ between a run and its continuation.
FREE = frozenset(
    ("train", "dev", "workdir", "epochs", "patience", "cache", "cache_gb", "resume", "overwrite")
)

_EXCLUSIVE = (("resume", "overwrite"),)
_COUNTS = ("units", "word_dim", "batch_size", "epochs", "patience", "token_column", "tag_column")
_COLUMNS = ("text_column", "label_column")
_RATES = ("dropout", "elmo_dropout")
_NOT_NEGATIVE = ("mix_l2", "cache_gb")
_POSITIVE = ("learning_rate", "clip_norm")
_FLAGS = (
    *("layer_norm", "fine_tune", "lowercase", "freeze_words", "characters", "binary"),
    *("resume", "overwrite"),
)


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """The training of a task model.

    Args:
        task: "ner", named entities; "pos", parts of speech or any other tags; "sst", sentiment of
            sentences; "snli", whether one sentence follows from another; "classify", any labels of
            texts.
        train: files of the task, see the readers in `elmo_tf.text`.
        dev: files on which it is decided when to stop, and which epoch was the best.
        workdir: where all results go.
        share: float, above 0 to 1. Of the examples of `train` that are trained on, drawn by the
            seed; a larger share holds those of a smaller one.
        model: "crf" for tags, "bcn" or "bilstm" for sentiment and other labels, "esim" for
            entailment; None for the first of the task's.
        elmo: a checkpoint, see `elmo_tf.load_bilm`; None for a model without ELMo.
        placement: where ELMo goes in, see `elmo_tf.tasks.TokenVectors`.
        mix: of the layers: "learnt", the "top" alone, or their "average".
        mix_l2: float >= 0. Penalty on the learnt weights of the mix: 1 keeps them near the average,
            0.001 lets them differ.
        elmo_dropout: float, 0 to below 1. On ELMo's vectors.
        layer_norm: whether each layer is normalised over the batch before the mix.
        fine_tune: whether the biLM is trained with the task; it is then computed at each step,
            where else its layers are computed once and kept.
        precision: "float32", or "bfloat16" for products of the biLM when its layers are kept.
        word_vectors: a file of GloVe or word2vec in text form to begin with; None learns vectors of
            the words that stand twice in `train`.
        word_dim: int >= 1. Width of learnt vectors; 0 for none.
        lowercase: whether words are looked up in lower case.
        freeze_words: whether the vectors of `word_vectors` stay as they are; those of other words
            that stand twice in `train` are learnt.
        characters: whether the task has a character CNN of its own.
        units: int >= 1. Width of the task's LSTMs; None for the published one.
        dropout: float, 0 to below 1. Of the task model.
        format, token_column, tag_column: of files of tags, see
            `tasks.data.tagged_sentences.read_tagged`.
        scheme: of the files of "ner", see `tasks.data.tag_schemes`.
        phrases: int >= 1 or None. Tokens that phrases must have to be examples of "sst", of
            training alone; None trains on whole sentences.
        binary: whether "sst" has two labels, without what is neutral.
        text_column, label_column: of the files of "classify", str or int >= 1, see
            `text.labelled_texts.read_labelled`.
        learning_rate: float > 0. Of Adam.
        clip_norm: float > 0. Bound of the gradient's global norm.
        batch_size: int >= 1. Examples of a step.
        epochs: int >= 1. Passes through `train` at most.
        patience: int >= 1. Epochs without a better score on `dev`, after which it ends.
        seed: int >= 0. Determines first weights, order and dropout.
        cache: folder of the layers that are kept; None for the usual one.
        cache_gb: float >= 0. What it may hold; 0 keeps nothing beyond the run.
        resume: whether to go on behind the last epoch of the run in `workdir`, or to begin if there
            is none.
        overwrite: whether the results of a run before in `workdir` may be deleted.

    Raises:
        ValueError: a value out of its range, or two that exclude each other.

    Source: Peters et al. 2018, section 3.3, 4 and supplement.
    """

    task: str
    train: tuple[str, ...]
    dev: tuple[str, ...]
    workdir: str
    share: float = 1.0
    model: str | None = None
    elmo: Any = None
    placement: str = "input"
    mix: str = "learnt"
    mix_l2: float = 0.001
    elmo_dropout: float = 0.5
    layer_norm: bool = False
    fine_tune: bool = False
    precision: str = "float32"
    word_vectors: str | None = None
    word_dim: int = 50
    lowercase: bool = False
    freeze_words: bool = False
    characters: bool = True
    units: int | None = None
    dropout: float = 0.5
    format: str | None = None
    token_column: int | None = None
    tag_column: int | None = None
    scheme: str = "BIO"
    phrases: int | None = None
    binary: bool = False
    text_column: str | int = "text"
    label_column: str | int = "label"
    learning_rate: float = 0.001
    clip_norm: float = 5.0
    batch_size: int = 32
    epochs: int = 50
    patience: int = 5
    seed: int = 0
    cache: str | None = None
    cache_gb: float = 20.0
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self):
        check_choice(self.task, "task", MODELS)
        for name in ("train", "dev"):
            files = getattr(self, name)
            files = (files,) if isinstance(files, str | os.PathLike) else files
            object.__setattr__(self, name, tuple(os.fspath(file) for file in files))
            if not files:
                raise ValueError(f"`{name}` must name at least one file.")
        for name in ("workdir", "word_vectors", "cache"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, os.fspath(getattr(self, name)))
        if self.model is None:
            object.__setattr__(self, "model", MODELS[self.task][0])
        self._check_values()
        self._check_together()

    @classmethod
    def resumed(cls, workdir: str | os.PathLike, **changes: Any) -> "TaskConfig":
        """The configuration that resumes the run in a work directory.

        Args:
            workdir: holds `task.json`, from which the settings are read. Paths in it are relative
                to the current directory.
            **changes: settings that replace those of the run. `train_task` refuses those that must
                not change.

        Raises:
            FileNotFoundError: there is no `task.json`.
            ValueError: it is damaged, or see `TaskConfig`.
        """
        changes["workdir"] = workdir
        return cls(**resumed_settings(cls, Path(workdir, RECORD_FILE), changes, _EXCLUSIVE))

    def _check_values(self) -> None:
        # Slow to import: the command's help needs this module too.
        from elmo_tf.tasks.data.tag_schemes import SCHEMES

        choices = {
            "model": MODELS[self.task],
            "placement": PLACEMENTS,
            "mix": MIXES,
            "precision": PRECISIONS,
            "scheme": SCHEMES,
        }
        for name, allowed in choices.items():
            check_choice(getattr(self, name), name, allowed)
        for name in (*_COUNTS, "phrases", "seed"):
            value = getattr(self, name)
            if value is not None:
                check_int(value, name, least=0 if name in ("seed", "word_dim") else 1)
        for name in _COLUMNS:
            value = getattr(self, name)
            if not isinstance(value, str):
                check_int(value, name, least=1)
            elif not value:
                raise ValueError(f"`{name}` must be a name, or a number from 1. Received: ''")
        for name in _FLAGS:
            check_bool(getattr(self, name), name)
        for name in _RATES:
            check_rate(getattr(self, name), name)
        for names, allowed, is_allowed in (
            (_NOT_NEGATIVE, "a number of at least 0", lambda value: 0 <= value < float("inf")),
            (_POSITIVE, "a number above 0", lambda value: 0 < value < float("inf")),
            (("seed",), "an integer below 2³²", lambda value: value < 2**32),
            (("share",), "a number above 0, at most 1", lambda value: 0 < value <= 1),
        ):
            for name in names:
                value = getattr(self, name)
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ValueError(f"`{name}` must be {allowed}. Received: {value!r}")
                if not is_allowed(value):
                    raise ValueError(f"`{name}` must be {allowed}. Received: {value!r}")

    def _check_together(self) -> None:
        for first, second in _EXCLUSIVE:
            if getattr(self, first) and getattr(self, second):
                raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")
        if self.fine_tune and self.elmo is None:
            raise ValueError("`fine_tune` needs `elmo`: there is no biLM to train.")
        if self.elmo is None and self.placement in ("output", "both"):
            raise ValueError(f"`placement` {self.placement} needs `elmo`: there is none to place.")
        has_words = self.word_vectors is not None or self.word_dim or self.characters
        if not has_words and (self.elmo is None or self.placement in ("output", "none")):
            raise ValueError(
                "There is nothing to read: no words (`word_dim`, `word_vectors`), no `characters`, "
                "and no `elmo` at the input."
            )
        if self.freeze_words and self.word_vectors is None:
            raise ValueError("`freeze_words` needs `word_vectors`: what is learnt must change.")
        if self.fine_tune and self.placement == "none":
            raise ValueError("`fine_tune` needs a `placement`: of the biLM nothing is read.")
        self._check_of_task()

    def _check_of_task(self) -> None:
        """Refuses settings that another task has."""
        if self.task != "sst" and (self.phrases is not None or self.binary):
            raise ValueError("`phrases` and `binary` are of the task sst alone.")
        if self.phrases is not None and self.share < 1:
            raise ValueError(
                "`share` draws sentences, and `phrases` takes parts of all of them: pass one."
            )
        if self.task != "ner" and self.scheme != "BIO":
            raise ValueError("`scheme` is of the task ner alone.")
        if self.task != "classify" and (self.text_column, self.label_column) != ("text", "label"):
            raise ValueError("`text_column` and `label_column` are of the task classify alone.")
        if self.text_column == self.label_column:
            raise ValueError(
                "`text_column` and `label_column` must differ. "
                f"Received: {self.text_column!r} for both"
            )
        columns = (self.format, self.token_column, self.tag_column)
        if self.task not in ("ner", "pos") and any(one is not None for one in columns):
            raise ValueError(
                "`format`, `token_column` and `tag_column` are of the tasks ner and pos alone."
            )

    def as_json(self) -> dict[str, Any]:
        """All settings as they were resolved."""
        return {name: _as_json(value) for name, value in dataclasses.asdict(self).items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_as_json(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
