"""What a pretraining run is told: one dataclass, checked, and written beside its results."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elmo_tf.config import BiLMConfig

RECORD_FILE = "training.json"
# What may differ between a run and its continuation. The content of corpus and vocabulary may not,
# and is compared apart; what says the shape is compared as the shape.
_FREE = frozenset(
    {
        *("preset", "start_from", "word_input", "tie_softmax", "forward_only"),
        *("corpus", "vocab", "workdir", "valid", "steps", "epochs", "save_every", "eval_every"),
        *("save_minutes", "resume", "overwrite", "accumulate", "tensorboard", "histograms_every"),
    }
)
DEFAULT_EPOCHS = 10
PRECISIONS = ("float32", "mixed_bfloat16")
OPTIMIZERS = {"adagrad": 0.2, "adam": 0.001, "adamw": 0.001}  # and their usual learning rates
SCHEDULES = ("constant", "inverse_sqrt", "cosine")

_EXCLUSIVE = (
    ("preset", "options"),
    *(("start_from", one) for one in ("word_input", "tie_softmax", "forward_only")),
    *(("steps", "epochs"), ("resume", "overwrite")),
)
_CHOICES = {"precision": PRECISIONS, "optimizer": tuple(OPTIMIZERS), "schedule": SCHEDULES}
_OPTIONAL = ("steps", "epochs", "eval_every", "histograms_every", "save_minutes", "learning_rate")
_RANGES = (
    (
        (
            *("batch_size", "unroll", "accumulate", "num_sampled", "save_every"),
            *("steps", "eval_every", "histograms_every"),
        ),
        "an integer of at least 1",
        lambda value: value >= 1,
    ),
    (("warmup_steps",), "an integer of at least 0", lambda value: value >= 0),
    (("seed",), "an integer from 0 to 2³¹ - 1", lambda value: 0 <= value < 2**31),
    (("epochs", "learning_rate", "clip_norm", "save_minutes"), "above 0", lambda value: value > 0),
    (("weight_decay",), "at least 0", lambda value: value >= 0),
    (("dropout",), "from 0 to below 1", lambda value: 0 <= value < 1),
)


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """A pretraining run. Defaults are the original's settings, for one device.

    Args:
        corpus: paths or patterns (`*`, `?`, `**`) of text files, one tokenised sentence a line;
            `.gz` is unpacked.
        vocab: the vocabulary file, see `Vocabulary`.
        workdir: where all results go; it becomes the checkpoint directory. Several workers share
            one.
        preset: name of a size, see `BiLMConfig.preset`. "small" if there is nothing else to say it.
        options: an `options.json` instead of a preset, a path or its content.
        start_from: a checkpoint to begin with instead of chance: its shape and weights. If it has a
            softmax and a vocabulary, tokens that are in both vocabularies keep their rows. A preset
            or options beside it must say the same shape.
        word_input: whether tokens are read from an embedding table instead of by their characters.
        tie_softmax: whether that table is the softmax's too.
        forward_only: whether to leave the backward direction out.
        valid: held-out text, as `corpus`. Perplexity is measured on it, and the weights of the best
            are kept in `best`.
        steps: int >= 1 or None. Steps in total, those before a restart included.
        epochs: float > 0 or None. The same as passes through the corpus. Defaults to 10 if there
            are no `steps`.
        batch_size: int >= 1. Lanes of text that are read side by side, by all replicas together.
        unroll: int >= 1. Tokens of a lane in one step.
        accumulate: int >= 1. Parts of its lanes that a replica computes one after the other, to
            need less memory. Each draws its own dropout and negatives.
        num_sampled: int >= 1. Negatives of the sampled softmax, a direction and step.
        precision: "float32", or "mixed_bfloat16" for products of bfloat16, with float32 weights.
            Falls back, with a warning, where the processor has no such products.
        seed: int. Determines first weights, order of the text, dropout and negatives.
        optimizer: "adagrad", "adam" or "adamw".
        learning_rate: float > 0 or None for the optimizer's usual one (Adagrad 0.2, Adam 0.001).
        schedule: "constant", "inverse_sqrt" or "cosine": how the rate falls.
        warmup_steps: int >= 0. Steps during which it rises from 0.
        weight_decay: float >= 0, of "adamw".
        dropout: float, 0 to 1 (excluded).
        clip_norm: float > 0. Bound of the global norm of the gradient.
        save_every: int >= 1. Steps between two saves.
        save_minutes: float > 0 or None. Minutes after which a save is due in any case.
        eval_every: int >= 1 or None. Steps between two looks at `valid`; None looks before the
            first step, ten times on the way, and at the end.
        tensorboard: whether to write losses, norms and rates for TensorBoard.
        histograms_every: int >= 1 or None. Steps between two histograms of all weights there.
        resume: whether to go on from the last save in `workdir`; without one, the run starts
            afresh.
        overwrite: whether the results of a run before in `workdir` may be deleted.

    Raises:
        ValueError: a value out of its range, or two that exclude each other.

    Source: Peters et al. 2018; the training script of the original.
    """

    corpus: tuple[str, ...]
    vocab: str
    workdir: str
    preset: str | None = None
    options: Any = None
    start_from: str | None = None
    word_input: bool = False
    tie_softmax: bool = False
    forward_only: bool = False
    valid: tuple[str, ...] = ()
    steps: int | None = None
    epochs: float | None = None
    batch_size: int = 128
    unroll: int = 20
    accumulate: int = 1
    num_sampled: int = 8192
    precision: str = "float32"
    seed: int = 0
    optimizer: str = "adagrad"
    learning_rate: float | None = None
    schedule: str = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    dropout: float = 0.1
    clip_norm: float = 10.0
    save_every: int = 1000
    save_minutes: float | None = None
    eval_every: int | None = None
    tensorboard: bool = False
    histograms_every: int | None = None
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self):
        for name in ("corpus", "valid"):
            object.__setattr__(self, name, _as_patterns(getattr(self, name)))
        for name in ("vocab", "workdir"):
            object.__setattr__(self, name, os.fspath(getattr(self, name)))
        if self.start_from is not None:
            object.__setattr__(self, "start_from", os.fspath(self.start_from))
        if not self.corpus:
            raise ValueError("`corpus` must name at least one file of text.")
        for first, second in _EXCLUSIVE:
            # Flags are False where the others are None.
            if getattr(self, first) and getattr(self, second):
                raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")
        for names, allowed, is_allowed in _RANGES:
            for name in names:
                value = getattr(self, name)
                if value is not None or name not in _OPTIONAL:
                    kind = int if "integer" in allowed else int | float
                    _check(name, value, kind, allowed, is_allowed)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}. "
                    f"Received: {getattr(self, name)!r}"
                )
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", OPTIMIZERS[self.optimizer])
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                "`weight_decay` is for the optimizer adamw alone. "
                f"Received: {self.weight_decay} with {self.optimizer}"
            )
        if self.histograms_every and not self.tensorboard:
            raise ValueError("`histograms_every` needs `tensorboard`: they are written for it.")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"`batch_size` must be a multiple of `accumulate`, {self.accumulate}: each part "
                f"takes as many lanes. Received: {self.batch_size}"
            )
        if self.schedule == "inverse_sqrt" and not self.warmup_steps:
            raise ValueError(
                "The schedule inverse_sqrt falls from where the warm-up ends: it needs "
                "`warmup_steps` of at least 1."
            )
        if self.tie_softmax and not self.word_input:
            raise ValueError(
                "`tie_softmax` needs `word_input`: without a table of tokens there is nothing to "
                "tie the softmax to."
            )

    @classmethod
    def resumed(cls, workdir: str | os.PathLike, **changes: Any) -> "PretrainConfig":
        """The configuration that resumes the run in a work directory.

        Args:
            workdir: holds `training.json`, from which the settings are read. Paths in it are
                relative to the current directory.
            **changes: settings that replace those of the run. `pretrain` refuses those that must
                not change.

        Raises:
            FileNotFoundError: there is no `training.json`.
            ValueError: it is damaged, or see `PretrainConfig`.
        """
        changes["workdir"] = workdir
        settings = resumed_settings(cls, Path(workdir, RECORD_FILE), changes, _EXCLUSIVE)
        if settings.get("preset"):  # the recorded options are its shape
            settings["options"] = changes.get("options")
        return cls(**settings)

    def bilm_config(self, num_tokens: int) -> BiLMConfig:
        """The shape of the biLM.

        Args:
            num_tokens: int. Tokens of the vocabulary.

        Raises:
            ValueError: no preset has that name, or the options are wrong.
        """
        if self.options is not None:
            config = BiLMConfig.from_options(self.options)
        else:
            config = BiLMConfig.preset(self.preset or "small")
        changes: dict[str, Any] = {}
        if self.word_input:
            changes["char_cnn"] = None
        if self.word_input or config.char_cnn is None or config.num_tokens is not None:
            changes["num_tokens"] = num_tokens
        if self.tie_softmax:
            changes["tie_softmax"] = True
        if self.forward_only:
            changes["bidirectional"] = False
        return dataclasses.replace(config, **changes)

    def as_json(self, shape: BiLMConfig) -> dict[str, Any]:
        """All settings as they were resolved, for `training.json`."""
        return {**dataclasses.asdict(self), "options": shape.to_options()}

    def check_continues(self, shape: BiLMConfig, before: dict[str, Any], path: Path) -> None:
        """Raises `ValueError` if this run cannot go on where one with the settings `before` ended.

        Args:
            shape: of the biLM.
            before: what `as_json` gave.
            path: the file that holds it, for the message.
        """
        now = _through_json(self.as_json(shape))
        changed = [
            f"{name} was {before.get(name)!r}, is {value!r}"
            for name, value in now.items()
            if name not in _FREE and before.get(name) != value
        ]
        if changed:
            raise ValueError(
                f"Cannot go on with other settings than those in {path}: {'; '.join(changed)}. "
                "Pass the same ones, or take another workdir."
            )


def resumed_settings(
    config_class: type, path: Path, changes: Mapping[str, Any], exclusive: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The settings that resume a run.

    Args:
        config_class: the dataclass of the settings.
        path: the record of the run, see `read_record`.
        changes: settings that replace recorded ones.
        exclusive: pairs of settings of which only one can be set. A change of one of them drops
            what is recorded of the other.

    Raises:
        FileNotFoundError: there is no record.
        ValueError: it is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} holds no run to resume: there is no {path.name}.")
    changes = {**changes, "resume": True}
    pairs = [pair for both in exclusive for pair in (both, both[::-1])]
    dropped = {other for name, other in pairs if changes.get(name)}
    names = {field.name for field in dataclasses.fields(config_class)} - dropped
    recorded = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in read_record(path)["settings"].items()
        if name in names
    }
    return {**recorded, **changes}


def read_record(path: Path) -> dict[str, Any]:
    """The record of a run: its `settings`, and its results.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise ValueError("it has no settings.")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return record


def _as_patterns(patterns: Any) -> tuple[str, ...]:
    if isinstance(patterns, str | os.PathLike):
        patterns = (patterns,)
    return tuple(os.fspath(pattern) for pattern in patterns or ())


def _check(name: str, value: Any, kind: Any, allowed: str, is_allowed: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not is_allowed(value):
        raise ValueError(f"`{name}` must be {allowed}. Received: {value!r}")


def _through_json(settings: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the file sees: tuples become lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()
    }
