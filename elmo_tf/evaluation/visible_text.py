"""Tokens of any text ─► what can be read on a line, in a table or in a picture."""

import unicodedata

# Controls, separators of lines and paragraphs, and what stands for an invalid byte.
_UNSEEN = {"Cc", "Zl", "Zp", "Cs"}


def visible(text: str) -> str:
    r"""The same text, with `\t`, `\n`, `\x85`, `\udcff` and so on for what cannot be seen.

    What joins or parts letters, as in Persian or in emoji, stays as it is.
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )


def shortened(text: str, length: int) -> str:
    """At most `length` characters of a text, the last of them … if it is longer."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
