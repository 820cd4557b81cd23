"""The folder of an exported model, its versions in numbered folders, and what these need."""

import os
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from elmo_tf.files import refuse_directory

# Files and folders of a version.
VERSION_FILES = ("saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra")


def versions_in(directory: Path) -> dict[int, Path]:
    """Returns the folders of all versions by number; empty if there are none."""
    folders = [path.parent for path in directory.glob("*/saved_model.pb")]
    return {
        int(folder.name): folder
        for folder in folders
        if folder.name.isascii() and folder.name.isdecimal() and int(folder.name) < 2**63
    }


def check_new_version(directory: str | os.PathLike, version: int, overwrite: bool) -> None:
    """Checks that a version may be written to the directory of a model.

    Raises:
        FileExistsError: the version exists; the message names the next free version.
    """
    directory = Path(directory)
    free = max([version, *versions_in(directory)]) + 1
    remedy = (
        f"Add `--version {free}` or `--overwrite` (in Python: version={free} or overwrite=True)."
    )
    refuse_directory(directory / str(version), overwrite, VERSION_FILES, remedy)


def register_operations(path: str | os.PathLike) -> None:
    """Imports tensorflow-text if a SavedModel has operations that are not in TensorFlow itself."""
    content = saved_model_pb2.SavedModel()
    try:
        content.ParseFromString((Path(path) / "saved_model.pb").read_bytes())
    except (OSError, DecodeError):
        return  # TensorFlow reports unreadable files when it loads them
    operations = [op for g in content.meta_graphs for op in g.meta_info_def.stripped_op_list.op]
    if not all(hasattr(tf.raw_ops, operation.name) for operation in operations):
        import tensorflow_text  # noqa: F401 - importing it registers its operations
