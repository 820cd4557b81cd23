"""Warnings about suspicious lines of a text, and errors that name a line."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

# Kinds of suspicious lines in any text, and their descriptions.
LINE_KINDS = {
    "invalid": "with invalid UTF-8 (read byte for byte; another encoding?)",
    "nul": "with NUL bytes (UTF-16?)",
    "boundary": "with a token <S> or </S> (names of the sentence boundaries)",
    "space": "with tokens separated by no-break or ideographic spaces (U+00A0, U+3000)",
}
_BOUNDARIES = {"<S>", "</S>"}
_WIDE_SPACES = re.compile(r"\S[\u00a0\u3000]+\S")


def suspicions(line: str, tokens: Sequence[str] | None = None) -> Sequence[str]:
    """Returns the keys of `LINE_KINDS` that apply to a line, or to tokens joined by spaces."""
    if line.isascii() and ">" not in line and "\0" not in line:
        return ()  # fast: most lines
    kinds = {
        "invalid": not is_utf_8(line),
        "nul": "\0" in line,
        "boundary": "S>" in line
        and not _BOUNDARIES.isdisjoint(line.split() if tokens is None else tokens),
        "space": _is_split_at_wide_space(line, tokens),
    }
    return [kind for kind, applies in kinds.items() if applies]


def _is_split_at_wide_space(line: str, tokens: Sequence[str] | None) -> bool:
    if "\u00a0" not in line and "\u3000" not in line:
        return False
    # Tokens of columns may contain such spaces.
    is_whole = tokens is not None and any(map(_WIDE_SPACES.search, tokens))
    return not is_whole and _WIDE_SPACES.search(line) is not None


def data_warnings(counts: Mapping[str, int], kinds: Mapping[str, str] = LINE_KINDS) -> str:
    """Summarizes counts of `kinds` as a line of text, empty if all are 0."""
    parts = [f"{counts[kind]:,} {text}" for kind, text in kinds.items() if counts.get(kind)]
    return f"Suspicious lines: {', '.join(parts)}." if parts else ""


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
    """Logs how many items, each of several strings, have invalid UTF-8, if any."""
    is_valid = [all(map(is_utf_8, strings)) for strings in items]
    if not all(is_valid):
        logging.warning(
            "%s: %s of %s %s have invalid UTF-8, which is kept. Is it another encoding?",
            *(os.fspath(path), f"{is_valid.count(False):,}", f"{len(is_valid):,}", kind),
        )
