"""The operations of a SavedModel that are not in TensorFlow itself."""

import os
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2


def needed_operations(path: str | os.PathLike) -> list[str]:
    """Returns the sorted names of these operations of the SavedModel at `path`."""
    content = saved_model_pb2.SavedModel()
    content.ParseFromString((Path(path) / "saved_model.pb").read_bytes())
    names = {
        operation.name
        for graph in content.meta_graphs
        for operation in graph.meta_info_def.stripped_op_list.op
    }
    return sorted(name for name in names if not hasattr(tf.raw_ops, name))


def register_operations(path: str | os.PathLike) -> None:
    """Registers the operations of tensorflow-text, if a SavedModel needs them to be loaded."""
    try:
        needed = needed_operations(path)
    except (OSError, DecodeError):
        return  # TensorFlow reports unreadable files when it loads them
    if needed:
        import tensorflow_text  # noqa: F401 - importing it registers them
