"""A checkpoint ─► an exported model in a temporary folder, for as long as it is served."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.load import load_bilm, load_vocabulary
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.saved_models.exporting import export
from elmo_tf.saved_models.folders import versions_in


@contextlib.contextmanager
def exported_models(path: str | os.PathLike) -> Iterator[str]:
    """Gives the folder of an exported model's versions within the block.

    Args:
        path: such a folder, which is given back as it is; or a checkpoint, as `load_bilm` takes
            it, which is exported.

    Raises:
        FileNotFoundError, OSError, ValueError: a checkpoint cannot be read, see `load_bilm`.
    """
    if not _is_checkpoint(path):
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="elmo_tf-") as folder:
        logging.info("%s is a checkpoint: it is exported to be served, which takes a while.", path)
        # Each request is computed by what was written, so that a comparison would only cost time.
        export(load_bilm(path), folder, vocabulary=load_vocabulary(path), check=False)
        yield folder


def _is_checkpoint(path: str | os.PathLike) -> bool:
    if find_named_model(path) is not None:
        return True
    path = Path(path)
    if path.is_dir():
        return any(path.glob("*options.json")) and not versions_in(path)
    return path.is_file()  # a zip
