"""Reads bracketed trees ─► the labelled phrases of each sentence."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.text.data_warnings import line_error
from elmo_tf.text.vocabulary import read_lines

_PARTS = re.compile(r"[()]|[^\s()]+")
# The Penn Treebank escapes brackets.
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """The label and the tokens of a sentence, or of a part of it."""

    label: str
    tokens: list[str]


def read_trees(path: str | os.PathLike) -> Iterator[tuple[int, list[Phrase]]]:
    r"""Reads one tree per line, such as `(3 (2 The) (4 (3 best) (2 film)))`.

    The escapes of the Penn Treebank are undone: `-LRB-` is `(`, and `\/` is `/`. Empty lines are
    skipped.

    Args:
        path: `.gz` is decompressed.

    Yields:
        The line number from 1, and all phrases of the tree: the sentence first, and each phrase
        before its parts.

    Raises:
        ValueError: a line does not hold exactly one tree, or see `read_lines`.
        OSError: the file cannot be read.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            try:
                yield number, _phrases(line)
            except ValueError as error:
                raise line_error(path, number, str(error)) from None


def _phrases(line: str) -> list[Phrase]:
    """Parses a tree without recursion, as it may be as deep as its sentence is long."""
    phrases: list[Phrase] = []
    open_phrases: list[Phrase] = []
    parts = _PARTS.findall(line)
    for place, part in enumerate(parts):
        if part == "(":
            if phrases and not open_phrases:
                raise ValueError("a second tree follows the first.")
            label = parts[place + 1] if place + 1 < len(parts) else ")"
            if label in ("(", ")"):
                raise ValueError("an opening bracket has no label.")
            phrase = Phrase(label, [])
            phrases.append(phrase)
            open_phrases.append(phrase)
        elif part == ")":
            if not open_phrases:
                raise ValueError("the tree is not balanced: a closing bracket has no match.")
            if not open_phrases.pop().tokens:
                raise ValueError("a phrase has no token.")
        elif place == 0 or parts[place - 1] != "(":
            if not open_phrases:
                raise ValueError(f"{part[:40]!r} is outside of all brackets.")
            for phrase in open_phrases:
                phrase.tokens.append(unescaped(part))
    if open_phrases:
        raise ValueError(f"the tree is not balanced: {len(open_phrases)} brackets are not closed.")
    return phrases


def unescaped(token: str) -> str:
    """The token that an escaped token of the Penn Treebank stands for."""
    return _ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*")
