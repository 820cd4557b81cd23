"""Exports a checkpoint into a temporary folder, so that it can be served."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import logging

from elmo_tf.checkpoints.formats import Source
from elmo_tf.checkpoints.locations import is_checkpoint, open_checkpoint
from elmo_tf.checkpoints.named_models import name_hint
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
    is_folder = not isinstance(path, tuple | list) and os.path.isdir(path)
    if is_folder and (versions_in(Path(path)) or not is_checkpoint(path)):
        yield os.fspath(path)
        return
    if not is_checkpoint(path):
        raise FileNotFoundError(
            f"Cannot serve {path}: no such folder or checkpoint.{name_hint(path)}"
        )
    with tempfile.TemporaryDirectory(prefix="elmo_tf-") as folder:
        logging.info("%s is a checkpoint: exporting it first, which takes a while.", path)
        with open_checkpoint(path) as checkpoint:
            bilm, vocabulary = checkpoint.bilm(), checkpoint.vocabulary()
        export(bilm, folder, vocabulary=vocabulary, check=False, cache_tokens=_CACHE_TOKENS)
        yield folder
