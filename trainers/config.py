"""What a pretraining run is told: one dataclass, checked, and written beside its results."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from elmo_tf.config import BiLMConfig

# What may differ between a run and its continuation. The content of corpus and vocabulary may not,
# and is compared apart.
_FREE = frozenset(
    {
        *("corpus", "vocab", "workdir", "valid", "steps", "epochs", "save_every", "eval_every"),
        *("resume", "overwrite"),
    }
)
DEFAULT_EPOCHS = 10


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """A pretraining run. Defaults are the original's settings, for one device.

    Args:
        corpus: paths or patterns (`*`, `?`, `**`) of text files, one tokenised sentence a line;
            `.gz` is unpacked.
        vocab: the vocabulary file, see `Vocabulary`.
        workdir: where all results go; it becomes the checkpoint directory.
        preset: name of a size, see `BiLMConfig.preset`. "small" if there is no `options` either.
        options: an `options.json` instead of a preset, a path or its content.
        valid: held-out text, as `corpus`. Perplexity is measured on it.
        steps: int >= 1 or None. Steps in total, those before a restart included.
        epochs: float > 0 or None. The same as passes through the corpus. Defaults to 10 if there
            are no `steps`.
        batch_size: int >= 1. Lanes of text that are read side by side.
        unroll: int >= 1. Tokens of a lane in one step.
        num_sampled: int >= 1. Negatives of the sampled softmax, a direction and step.
        precision: "float32".
        seed: int. Determines first weights, order of the text, dropout and negatives.
        learning_rate: float > 0, of Adagrad.
        dropout: float, 0 to 1 (excluded).
        clip_norm: float > 0. Bound of the global norm of the gradient.
        save_every: int >= 1. Steps between two saves.
        eval_every: int >= 1 or None. Steps between two looks at `valid`; None looks before the
            first step, ten times on the way, and at the end.
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
    valid: tuple[str, ...] = ()
    steps: int | None = None
    epochs: float | None = None
    batch_size: int = 128
    unroll: int = 20
    num_sampled: int = 8192
    precision: str = "float32"
    seed: int = 0
    learning_rate: float = 0.2
    dropout: float = 0.1
    clip_norm: float = 10.0
    save_every: int = 1000
    eval_every: int | None = None
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self):
        for name in ("corpus", "valid"):
            object.__setattr__(self, name, _as_patterns(getattr(self, name)))
        for name in ("vocab", "workdir"):
            object.__setattr__(self, name, os.fspath(getattr(self, name)))
        if not self.corpus:
            raise ValueError("`corpus` must name at least one file of text.")
        for first, second in (("preset", "options"), ("steps", "epochs"), ("resume", "overwrite")):
            # `resume` and `overwrite` are False where the others are None.
            if getattr(self, first) and getattr(self, second):
                raise ValueError(f"`{first}` and `{second}` exclude each other: pass one of them.")
        for name in ("batch_size", "unroll", "num_sampled", "save_every"):
            _check(name, getattr(self, name), int, "an integer of at least 1", lambda v: v >= 1)
        for name in ("steps", "eval_every"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), int, "an integer of at least 1", lambda v: v >= 1)
        if self.epochs is not None:
            _check("epochs", self.epochs, int | float, "above 0", lambda v: v > 0)
        _check("precision", self.precision, str, "float32", lambda v: v == "float32")
        _check("seed", self.seed, int, "an integer from 0 to 2³¹ - 1", lambda v: 0 <= v < 2**31)
        for name in ("learning_rate", "clip_norm"):
            _check(name, getattr(self, name), int | float, "above 0", lambda v: v > 0)
        _check("dropout", self.dropout, int | float, "from 0 to below 1", lambda v: 0 <= v < 1)

    def bilm_config(self) -> BiLMConfig:
        """The shape of the biLM.

        Raises:
            ValueError: no preset has that name, or the options are wrong.
        """
        if self.options is not None:
            return BiLMConfig.from_options(self.options)
        return BiLMConfig.preset(self.preset or "small")

    def as_json(self) -> dict[str, Any]:
        """All settings as they were resolved, for `training.json`."""
        settings = dataclasses.asdict(self)
        settings["options"] = self.bilm_config().to_options()
        return settings

    def check_continues(self, before: dict[str, Any], path: Path) -> None:
        """Raises `ValueError` if this run cannot go on where one with the settings `before` ended.

        Args:
            before: what `as_json` gave.
            path: the file that holds it, for the message.
        """
        now = _through_json(self.as_json())
        changed = [
            f"{name} was {before.get(name)!r}, is {value!r}"
            for name, value in now.items()
            if name not in _FREE and name != "preset" and before.get(name) != value
        ]
        if changed:
            raise ValueError(
                f"Cannot go on with other settings than those in {path}: {'; '.join(changed)}. "
                "Pass the same ones, or take another workdir."
            )


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
