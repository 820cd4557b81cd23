"""Text made readable for a line, a table or a plot."""

import unicodedata
from collections.abc import Sequence

# Control characters, line and paragraph separators, and surrogates (invalid bytes).
_INVISIBLE = {"Cc", "Zl", "Zp", "Cs"}


def visible(text: str) -> str:
    r"""Replaces invisible characters by escapes such as `\t`, `\n`, `\x85` and `\udcff`.

    Joiners, as in Persian and in emoji, are kept.
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )


def in_context(tokens: Sequence[str], position: int, width: int, mark: str) -> str:
    """Marks a token, and joins it with up to `width` tokens on each side; "…" shows cuts.

    `mark` is a format string, such as "[{}]".
    """
    first, end = max(0, position - width), position + width + 1
    words = [*tokens[first:position], mark.format(tokens[position]), *tokens[position + 1 : end]]
    return " ".join(["…"] * (first > 0) + words + ["…"] * (end < len(tokens)))


def shortened(text: str, length: int) -> str:
    """Cuts a text to `length` characters, the last of them "…", if it is longer."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
