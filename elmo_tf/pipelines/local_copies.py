"""Paths on Beam's filesystems ─► local files, for readers that open local paths alone."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from elmo_tf.pipelines.beam_names import CompressionTypes, FileSystems


def is_remote(path: str) -> bool:
    """Whether Python cannot open the path: it begins with `gs://`, `hdfs://` or the like."""
    return FileSystems.get_scheme(path) is not None


def matching_paths(pattern: str) -> list[str]:
    """The paths that match a pattern on any filesystem that Beam knows, in order."""
    (found,) = FileSystems.match([pattern])
    return sorted(metadata.path for metadata in found.metadata_list)


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """Gives a local path to the same bytes within the block.

    Args:
        path: of a file. A remote one is copied, under its own name, into a temporary folder.
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
    """The same of a file, or of a folder with all that is in it.

    Raises:
        FileNotFoundError: a remote path at which nothing lies.
    """
    if not is_remote(path):
        yield path
        return
    path = path.rstrip("/")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, path.rpartition("/")[2])
        files = matching_paths(f"{path}/**")
        for file in files:
            _copy(file, target + file.removeprefix(path))
        if not files:
            if not matching_paths(path):
                raise FileNotFoundError(f"There is nothing at {path}.")
            _copy(path, target)
        yield target


def _copy(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # Byte for byte: Beam would unpack `.gz`, which the readers do by themselves.
    with (
        FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as source,
        open(target, "wb") as copy,
    ):
        shutil.copyfileobj(source, copy)
