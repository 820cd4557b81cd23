"""Text made readable for a line, a table or a plot."""

import unicodedata

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


def shortened(text: str, length: int) -> str:
    """Cuts a text to `length` characters, the last of them "…", if it is longer."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
