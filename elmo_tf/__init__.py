"""ELMo for today's TensorFlow: deep contextual word vectors as Keras layers.

The public names are resolved on first use, so that `import elmo_tf` is quick.
"""

from elmo_tf.lazy import lazy_names

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
    "load_language_model": "elmo_tf.checkpoints.load",
    "save_bilm": "elmo_tf.checkpoints.save",
}
_SUBPACKAGES = (
    "checkpoints",
    "config",
    "embedding",
    "evaluation",
    "layers",
    "models",
    "pipelines",
    "saved_models",
    "tasks",
    "text",
    "trainers",
)

_NAMES = {**_HOMES, **{name: f"elmo_tf.{name}" for name in _SUBPACKAGES}}

__all__ = [*_NAMES, "__version__"]

__getattr__, _public_names = lazy_names(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted([*_public_names(), "__version__"])
