"""Warnings about suspicious lines of a text, and errors that name a line."""

import os


def data_warnings(*kinds: tuple[int, str]) -> str:
    """Summarizes suspicious lines as a line of text, empty if there are none.

    Args:
        kinds: pairs (count, description).
    """
    found = [f"{number:,} {kind}" for number, kind in kinds if number]
    return f"Suspicious lines: {', '.join(found)}." if found else ""


def line_error(path: str | os.PathLike, line: int, message: str) -> ValueError:
    """An error in a line of a file."""
    return ValueError(f"{os.fspath(path)}, line {line}: {message}")


def is_utf_8(line: str) -> bool:
    """Whether a line was valid UTF-8: it contains no surrogate of an invalid byte."""
    if line.isascii():
        return True
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
