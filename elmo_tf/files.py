"""Atomic writing of files and directories, and checks of output paths."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_REMEDY = "Choose another path or add --overwrite (overwrite=True)."


def atomic_file(
    path: str | os.PathLike, overwrite: bool = True
) -> contextlib.AbstractContextManager[Path]:
    """Context manager that writes a temporary file and renames it to `path` if the block succeeds.

    Missing parent directories are created. Yields the temporary path, in the same directory. If the
    block raises, it is removed, also the parents that were created, and `path` is unchanged.

    Errors: see `refuse_file`.
    """
    return _atomic(Path(path), Path.touch, functools.partial(refuse_file, path, overwrite))


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Writes a value as indented JSON; see `json_text` and `atomic_file`."""
    with atomic_file(path) as part:
        part.write_text(json_text(content, indent=2) + "\n", encoding="utf-8")


def json_text(content: Any, indent: int | None = None) -> str:
    """A value as JSON, arrays as lists. The surrogates for invalid bytes of a text are escaped.

    Infinity and NaN, which JSON lacks, become null.
    """
    text = json.dumps(content, ensure_ascii=False, indent=indent, default=_plain)
    if "Infinity" in text or "NaN" in text:
        content = json.loads(text, parse_constant=lambda _: None)
        text = json.dumps(content, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:  # an array of NumPy, or the bytes in it
    return value.tolist() if hasattr(value, "tolist") else value.decode("utf-8", "surrogateescape")


def atomic_directory(
    path: str | os.PathLike, overwrite: bool = False, known: Collection[str] = ()
) -> contextlib.AbstractContextManager[Path]:
    """`atomic_file` for a directory; for the errors, see `refuse_directory`."""
    check = functools.partial(refuse_directory, path, overwrite, known)
    return _atomic(Path(path), Path.mkdir, check)


@contextlib.contextmanager
def _atomic(
    path: Path, create: Callable[[Path], None], check: Callable[[], None]
) -> Iterator[Path]:
    check()
    path = Path(os.path.realpath(path))  # replaces the target of a link, not the link
    created = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _beside(path, f".part{path.suffix}")  # Keras requires its suffix
    create(part)
    try:
        yield part
        check()  # another process may have written to it
        put_in_place(part, path)
    except Exception as error:
        _explain_full_disk(error, path)
        raise
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)
        for parent in created:
            with contextlib.suppress(OSError):  # it is not empty
                parent.rmdir()


def _explain_full_disk(error: BaseException | None, path: Path) -> None:
    """Raises `OSError` with the name of an output if an error, of any library, is a full disk."""
    while error is not None:
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if (text := os.strerror(number)) in str(error):
                explained = OSError(f"Cannot write {path}: {text}.")
                explained.errno = number
                raise explained from None
        error = error.__context__


@contextlib.contextmanager
def locked_directory(path: str | os.PathLike, message: str) -> Iterator[None]:
    """Creates a directory and locks it; `FileExistsError` with `message` if it is locked."""
    os.makedirs(path, exist_ok=True)
    descriptor, is_locked = os.open(path, os.O_RDONLY), False
    try:
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A faster process may have removed or replaced it before this one locked it.
            is_locked = os.path.samestat(os.fstat(descriptor), os.stat(path))
        if not is_locked:
            raise FileExistsError(message)
        yield
    finally:
        os.close(descriptor)


def put_in_place(part: Path, path: Path) -> None:
    """Syncs a file or directory to disk, and renames it to `path`, which it replaces."""
    for file in [part, *part.rglob("*")]:
        if file.is_file():
            sync_to_disk(file)
    if path.is_dir():
        old = _beside(path, ".old")
        os.replace(path, old)
        os.replace(part, path)
        shutil.rmtree(old)
    else:
        os.replace(part, path)


def refuse_directory(
    path: str | os.PathLike, overwrite: bool = False, known: Collection[str] = ()
) -> None:
    """Raises `FileExistsError` if `path` is not a directory, or if it may not be replaced.

    A directory that is not empty is replaced only with `overwrite`, and only if its files are all
    `known`, names or patterns.
    """
    path = Path(path)
    if os.path.lexists(path) and not path.is_dir():
        raise FileExistsError(f"{path} exists and is not a directory. Choose another path.")
    if path.is_dir() and (os.path.ismount(path) or os.path.samefile(path, os.curdir)):
        raise FileExistsError(f"{path} cannot be replaced. Choose a new directory in it.")
    names = sorted(child.name for child in path.iterdir()) if path.is_dir() else []
    if names and not overwrite:
        raise FileExistsError(f"{path} exists. {_REMEDY}")
    others = [name for name in names if not any(fnmatch(name, pattern) for pattern in known)]
    if others:
        raise FileExistsError(
            f"{path} is not replaced because it contains other files: {', '.join(others[:5])}. "
            "Choose another path."
        )


def refuse_file(path: str | os.PathLike, overwrite: bool = False) -> None:
    """Raises `FileExistsError` if a path exists without `overwrite`, or is no regular file."""
    if os.fspath(path) == "/dev/stdin":  # `-` of the command line, perhaps a link to the input
        raise FileExistsError("An output cannot be stdin (-). Choose another path.")
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{os.fspath(path)} exists. {_REMEDY}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileExistsError(f"{os.fspath(path)} is not a regular file. Choose another path.")


def check_space(folder: Path, num_bytes: int) -> None:
    """Raises `OSError` if the disk is full, which HDF5 reports late, in many errors, or crashes."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, num_bytes)


def refuse_pattern(path: str | os.PathLike) -> None:
    """Raises `ValueError` if `path` contains wildcards, which TensorFlow would expand."""
    match = re.search(r"[*?\[\]\\]", os.path.abspath(path))
    if match:
        raise ValueError(f"TensorFlow cannot use {path}: it treats {match[0]} as a wildcard.")


def _beside(path: Path, suffix: str) -> Path:
    """A new hidden path in the same directory."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{suffix}")


def sync_to_disk(path: Path) -> None:
    """Syncs a file to disk."""
    descriptor = os.open(path, os.O_RDONLY)  # `open` does not open directories
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
