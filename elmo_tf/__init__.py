"""ELMo for today's TensorFlow: deep contextual word vectors as Keras layers.

The public names are resolved on first use, so that `import elmo_tf` is quick.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "BiLM": "elmo_tf.models.bilm",
    "BiLMConfig": "elmo_tf.config",
    "CharCNNConfig": "elmo_tf.config",
    "Elmo": "elmo_tf.models.elmo",
    "Embedder": "elmo_tf.embedding",
    "LSTMConfig": "elmo_tf.config",
    "Vocabulary": "elmo_tf.text.vocabulary",
    "char_ids": "elmo_tf.text.char_ids",
    "load_bilm": "elmo_tf.checkpoints.load",
    "save_bilm": "elmo_tf.checkpoints.save",
}
_SUBPACKAGES = (
    "checkpoints",
    "config",
    "embedding",
    "evaluation",
    "layers",
    "models",
    "saved_models",
    "text",
    "trainers",
)

__all__ = [*_HOMES, *_SUBPACKAGES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"elmo_tf.{name}")
    raise AttributeError(f"module 'elmo_tf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
