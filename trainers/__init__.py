"""Training: configuration, streams of text, steps, optimisers, and the mains."""

import importlib
from typing import Any

_HOMES = {
    "PretrainConfig": "elmo_tf.trainers.config",
    "pretrain": "elmo_tf.trainers.pretraining",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'elmo_tf.trainers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
