"""Keras's backend, and graphs that other runtimes can run: ONNX Runtime, LiteRT and OpenVINO."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

from elmo_tf.compat import is_in_keras_export

_portable = contextvars.ContextVar("portable", default=False)


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Context manager in which TensorFlow traces graphs that other runtimes can run too.

    `Elmo`, `BiLM` and the layers then compute the same vectors from ids without operations that
    only TensorFlow has; they are slower in TensorFlow and do not check ids and `lengths`. Keras's
    `Model.export` for ONNX, LiteRT and OpenVINO does not need it; tf2onnx and TensorFlow's
    converters do.

    Example:
        >>> elmo = elmo_tf.Elmo.from_pretrained("small-en")
        >>> with elmo_tf.portable():
        ...     graph = tf.function(elmo).get_concrete_function(
        ...         tf.TensorSpec((None, None, 50), tf.int32)
        ...     )
    """
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def is_portable() -> bool:
    """Whether the graph that is traced must be portable."""
    return _portable.get() or is_in_keras_export()


def require_tensorflow(what: str) -> None:
    """Raises `ValueError`, which names what was called, if Keras has another backend."""
    backend = keras.config.backend()  # AutoGraph cannot convert `:=`
    if backend != "tensorflow":
        raise ValueError(f"{what} requires Keras's TensorFlow backend. KERAS_BACKEND is {backend}.")
