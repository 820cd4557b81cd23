"""Files and folders that appear under their final name only when they are complete."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike, overwrite: bool = True) -> Iterator[Path]:
    """Gives a temporary path beside `path`, and moves it to `path` when the block ends well.

    Args:
        path: the final name. Its folder is made if it is not there.
        overwrite: whether a file of that name may be replaced.

    Yields:
        A path in the same folder, to be written within the block. If the block raises, it is
        removed and `path` stays as it was.

    Raises:
        FileExistsError: `path` exists and `overwrite` is false, or it is a folder.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    if path.is_dir():
        raise FileExistsError(f"Cannot write the file {path}: a folder has that name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        _synchronise(part)
        part.chmod(0o666 & ~_umask())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """Gives a temporary folder beside `path`, and renames it to `path` when the block ends well.

    Args:
        path: the final name. Its parent is made if it is not there.
        overwrite: whether a folder of that name may be replaced.

    Yields:
        An empty folder. If the block raises, it is removed and `path` stays as it was.

    Raises:
        FileExistsError: `path` exists, is not an empty folder, and `overwrite` is false.
    """
    path = Path(path)
    if not (path.is_dir() and not any(path.iterdir())):
        refuse_existing(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield part
        for file in part.rglob("*"):
            if file.is_file():
                _synchronise(file)
        part.chmod(0o777 & ~_umask())
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
            os.replace(path, old / path.name)
            os.replace(part, path)
            shutil.rmtree(old)
        else:
            os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def refuse_existing(path: str | os.PathLike, overwrite: bool) -> None:
    """Raises `FileExistsError` if `path` exists and may not be replaced."""
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(
            f"{os.fspath(path)} exists already. Choose another path, or allow it to be "
            "replaced (overwrite=True, --overwrite)."
        )


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
