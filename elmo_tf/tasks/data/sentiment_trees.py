"""Files of bracketed trees ─► the phrases of each sentence, with a label each."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.text.vocabulary import read_lines

_PARTS = re.compile(r"[()]|[^\s()]+")
# What stands for characters that mean something in a tree.
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """A part of a sentence: its label and its tokens."""

    label: str
    tokens: list[str]


def read_trees(path: str | os.PathLike) -> Iterator[tuple[int, list[Phrase]]]:
    r"""Reads a tree a line, such as `(3 (2 The) (4 (3 best) (2 film)))`.

    The escapes of the Penn Treebank are undone: `-LRB-` is `(`, and `\/` is `/`. Empty lines are
    passed over.

    Args:
        path: `.gz` is unpacked.

    Yields:
        The line's number from 1, and all phrases of its tree: the whole sentence first, and each
        before its parts.

    Raises:
        ValueError: a line is no tree, or more than one; or see `read_lines`.
        OSError: the file cannot be read.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            try:
                yield number, _phrases(line)
            except ValueError as error:
                raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from None


def _phrases(line: str) -> list[Phrase]:
    """Trees may be as deep as a sentence is long: no recursion."""
    phrases: list[Phrase] = []
    open_phrases: list[Phrase] = []
    parts = _PARTS.findall(line)
    for place, part in enumerate(parts):
        if part == "(":
            if phrases and not open_phrases:
                raise ValueError("a second tree begins behind the first.")
            label = parts[place + 1] if place + 1 < len(parts) else ")"
            if label in ("(", ")"):
                raise ValueError("a bracket opens without a label behind it.")
            phrase = Phrase(label, [])
            phrases.append(phrase)
            open_phrases.append(phrase)
        elif part == ")":
            if not open_phrases:
                raise ValueError("the tree is not balanced: a bracket closes that never opened.")
            if not open_phrases.pop().tokens:
                raise ValueError("a phrase has no token.")
        elif place == 0 or parts[place - 1] != "(":
            if not open_phrases:
                raise ValueError(f"{part[:40]!r} stands outside of any bracket.")
            for phrase in open_phrases:
                phrase.tokens.append(unescaped(part))
    if open_phrases:
        raise ValueError(
            f"the tree is not balanced: {len(open_phrases)} brackets are never closed."
        )
    return phrases


def unescaped(token: str) -> str:
    """A token as it stands in a text, of one in a tree of the Penn Treebank."""
    return _ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*")
