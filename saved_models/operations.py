"""The operations of a SavedModel that TensorFlow itself does not have."""

import os
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2


def needed_operations(path: str | os.PathLike) -> list[str]:
    """Their names, sorted.

    Args:
        path: a SavedModel.
    """
    content = saved_model_pb2.SavedModel()
    content.ParseFromString((Path(path) / "saved_model.pb").read_bytes())
    names = {
        operation.name
        for graph in content.meta_graphs
        for operation in graph.meta_info_def.stripped_op_list.op
    }
    return sorted(name for name in names if not hasattr(tf.raw_ops, name))


def register_operations(path: str | os.PathLike) -> None:
    """Makes the operations of tensorflow-text known, if a SavedModel needs any.

    TensorFlow refuses to load a graph with an operation that it does not know. A damaged file is
    left for it to tell of.
    """
    try:
        needed = needed_operations(path)
    except (OSError, DecodeError):
        return
    if needed:
        import tensorflow_text  # noqa: F401 - importing it registers them
