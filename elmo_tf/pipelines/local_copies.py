"""Paths on the filesystems of Beam ─► local files, for readers of local paths."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from elmo_tf.extras import require_extra

beam = require_extra("apache_beam", "beam", "An embedding pipeline")
FileSystems = beam.io.filesystems.FileSystems


def is_remote(path: str) -> bool:
    """Whether a path begins with `gs://`, `hdfs://` or a similar scheme."""
    return FileSystems.get_scheme(path) is not None


def matching_paths(pattern: str) -> list[str]:
    """Returns the sorted paths that match a pattern on any filesystem of Beam."""
    (found,) = FileSystems.match([pattern])
    return sorted(metadata.path for metadata in found.metadata_list)


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """A context that yields a local path of a file.

    A remote file is copied, under its own name, to a temporary folder.
    """
    if not is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, path.rpartition("/")[2])
        _copy(path, target)
        yield target


@contextlib.contextmanager
def local_tree(path: str) -> Iterator[str]:
    """A context like `local_file`, for a file or a folder with all its files.

    Raises:
        FileNotFoundError: a remote path does not exist.
    """
    if not is_remote(path):
        yield path
        return
    path = path.rstrip("/")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, path.rpartition("/")[2])
        files = matching_paths(f"{path}/**") or matching_paths(path)
        if not files:
            raise FileNotFoundError(f"{path} does not exist.")
        for file in files:
            _copy(file, target + file.removeprefix(path))
        yield target


def _copy(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    as_it_is = beam.io.filesystem.CompressionTypes.UNCOMPRESSED  # the readers unpack `.gz` files
    with FileSystems.open(path, compression_type=as_it_is) as source, open(target, "wb") as copy:
        shutil.copyfileobj(source, copy)
