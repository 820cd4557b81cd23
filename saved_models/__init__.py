"""Exported models: written, checked, loaded as a layer, served, and asked over the network."""

import importlib
from typing import Any

_HOMES = {
    "Client": "elmo_tf.saved_models.client",
    "export": "elmo_tf.saved_models.exporting",
    "load": "elmo_tf.saved_models.layer",
    "serve": "elmo_tf.saved_models.server",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'elmo_tf.saved_models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
