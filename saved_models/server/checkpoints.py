"""Exports a checkpoint into a temporary folder, so that it can be served."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.load import load_bilm, load_vocabulary
from elmo_tf.checkpoints.locations import Source, is_checkpoint_directory
from elmo_tf.checkpoints.named_models import find_named_model, name_hint
from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint
from elmo_tf.saved_models.exporting.export import export
from elmo_tf.saved_models.folders import versions_in

_CACHE_TOKENS = 50_000


@contextlib.contextmanager
def exported_models(path: Source) -> Iterator[str]:
    """Yields a folder of exported versions: `path`, or a temporary export of the checkpoint `path`.

    Raises:
        FileNotFoundError: `path` is neither.
        OSError, ValueError: the checkpoint cannot be read, see `load_bilm`.
    """
    if not _is_checkpoint(path):
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="elmo_tf-") as folder:
        logging.info("%s is a checkpoint: exporting it first, which takes a while.", path)
        export(
            load_bilm(path),
            folder,
            vocabulary=load_vocabulary(path),
            check=False,
            cache_tokens=_CACHE_TOKENS,
        )
        yield folder


def _is_checkpoint(path: Source) -> bool:
    if isinstance(path, tuple | list) or find_named_model(path) is not None:
        return True
    if os.fspath(path).startswith(("http://", "https://", "hf://")):
        return True
    folder = Path(path)
    if folder.is_dir():
        return is_checkpoint_directory(folder) and not versions_in(folder)
    if folder.is_file() or find_tf1_checkpoint(path) is not None:
        return True
    raise FileNotFoundError(f"Cannot serve {path}: no such folder or checkpoint.{name_hint(path)}")
