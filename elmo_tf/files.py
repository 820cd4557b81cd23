"""Files and folders that appear under their final name only when they are complete."""

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path

# Errors of a full disk, a quota and a limit on the size of files.
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REMEDY = "Choose another path or add --overwrite (overwrite=True)."


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
    refuse_file(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _beside(path, ".part")
    part.touch(exist_ok=False)
    try:
        with naming_full_disk(path):
            yield part
            synchronise(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(
    path: str | os.PathLike, overwrite: bool = False, known: Collection[str] = ()
) -> Iterator[Path]:
    """Gives a temporary folder beside `path`, and renames it to `path` when the block ends well.

    Args:
        path: the final name. Its parent is made if it is not there.
        overwrite: whether a folder of that name may be replaced, with all that is in it.
        known: names, or patterns of names, that a folder may hold to be replaced. One that holds
            anything else is not what was written here before, and is refused.

    Yields:
        An empty folder. If the block raises, it is removed and `path` stays as it was.

    Raises:
        FileExistsError: `path` exists, is not an empty folder, and `overwrite` is false; or it is
            no folder, or holds something that is not `known`.
    """
    path = Path(path)
    refuse_directory(path, overwrite, known)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _beside(path, ".part")
    part.mkdir()
    try:
        with naming_full_disk(path):
            yield part
        refuse_directory(path, overwrite, known)  # another process may have written it meanwhile
        put_in_place(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def naming_full_disk(path: str | os.PathLike) -> Iterator[None]:
    """A block whose error names `path` if no space is left, of which a write names no path."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


def put_in_place(part: Path, path: Path) -> None:
    """Renames what is complete, a file or a folder, to its final name, and replaces what is there.

    Args:
        part: a file or a folder on the same file system as `path`.
        path: the final name.
    """
    for file in [part, *part.rglob("*")]:
        if file.is_file():
            synchronise(file)
    if path.is_dir():
        old = _beside(path, ".old")
        os.replace(path, old)
        os.replace(part, path)
        shutil.rmtree(old)
    else:
        os.replace(part, path)


def refuse_directory(
    path: str | os.PathLike,
    overwrite: bool = False,
    known: Collection[str] = (),
    remedy: str | None = None,
) -> None:
    """Raises `FileExistsError` if a folder may not be written; see `atomic_directory`.

    Args:
        path, overwrite, known: see `atomic_directory`.
        remedy: the end of the message if the folder may only be replaced with `overwrite`. Defaults
            to that of `refuse_existing`, or, if nothing is `known`, to another path.
    """
    path = Path(path)
    if not path.is_dir():
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists and is not a folder. Choose another path.")
        return
    children = {child.name for child in path.iterdir()}
    if children:
        refuse_existing(path, overwrite, remedy or (_REMEDY if known else "Choose another path."))
    others = sorted(name for name in children if not any(fnmatch(name, one) for one in known))
    if others:
        raise FileExistsError(
            f"{path} will not be replaced, since it holds more than would be written: "
            f"{', '.join(others[:5])}. Choose another path."
        )


def refuse_file(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Raises `FileExistsError` if a file may not be written; see `atomic_file`."""
    refuse_existing(path, overwrite)
    if os.path.isdir(path):
        raise FileExistsError(f"Cannot write the file {os.fspath(path)}: a folder has that name.")


def refuse_existing(path: str | os.PathLike, overwrite: bool, remedy: str = _REMEDY) -> None:
    """Raises `FileExistsError` if `path` exists and may not be replaced.

    Args:
        path: of a file or a folder.
        overwrite: whether it may be replaced.
        remedy: the end of the message.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{os.fspath(path)} exists. {remedy}")


def refuse_pattern(path: str | os.PathLike) -> None:
    """Raises `ValueError` if TensorFlow, which is to write to `path`, takes it for a pattern."""
    found = re.search(r"[*?\[\]\\]", os.path.abspath(path))
    if found:
        raise ValueError(
            f"TensorFlow cannot write to {os.fspath(path)}: it takes {found[0]} for a part of a "
            "pattern. Choose another path."
        )


def _beside(path: Path, suffix: str) -> Path:
    """A new name in the same folder, for what `path` is to become or was."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{suffix}")


def synchronise(path: Path) -> None:
    """Returns when what was written to the file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
