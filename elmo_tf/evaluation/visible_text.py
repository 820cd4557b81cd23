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


def in_context(tokens: Sequence[str], position: int, width: int = 8) -> str:
    """A token in bold, with up to `width` tokens on each side, for a cell of a Markdown table."""
    first, end = max(0, position - width), position + width + 1
    words = [*tokens[first:position], f"**{tokens[position]}**", *tokens[position + 1 : end]]
    cut = " ".join(["…"] * (first > 0) + words + ["…"] * (end < len(tokens)))
    return visible(cut).replace("|", "\\|")
