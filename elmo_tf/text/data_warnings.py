"""Warnings about suspicious lines of a text, and errors that name a line."""

import os
from collections.abc import Iterable

from absl import logging


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


def warn_of_invalid_utf_8(
    path: str | os.PathLike, items: Iterable[Iterable[str]], kind: str
) -> None:
    """Logs how many items have invalid UTF-8, if any.

    Args:
        path: the file, for the message.
        items: the strings of each item.
        kind: what the items are, in the plural, such as "sentences".
    """
    is_valid = [all(map(is_utf_8, strings)) for strings in items]
    if not all(is_valid):
        logging.warning(
            "%s: %s of %s %s have invalid UTF-8, which is kept. Is it another encoding?",
            *(os.fspath(path), f"{is_valid.count(False):,}", f"{len(is_valid):,}", kind),
        )
