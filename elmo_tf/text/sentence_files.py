"""Files of text or of CoNLL columns ─► sentences, each of which has a place.

Unlike a corpus to train on, of which empty lines are passed over, a text to be embedded keeps a
place for every line.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from elmo_tf.config_checks import check_choice
from elmo_tf.text.columns import TOKEN_COLUMNS, column, column_sentences
from elmo_tf.text.data_warnings import data_warnings, is_utf_8
from elmo_tf.text.sentences import encode
from elmo_tf.text.vocabulary import read_lines

FORMATS = ("text", "conll", "conllu")
_CONLL_SUFFIXES = (".conll", ".conllx", ".conll.txt", ".bio", ".iob", ".iob2", ".iobes", ".bioes")


class Sentence(NamedTuple):
    """A sentence as it stands in a file.

    text: its line without white space around it; of columns, the tokens with spaces between them.
    tokens: at least one character each.
    is_blank: whether it has no tokens, but white space.
    """

    text: str
    tokens: list[str]
    is_blank: bool = False


def format_of(path: str | os.PathLike) -> str:
    """One of `FORMATS`, by the name of a file; "text" if the name tells nothing."""
    name = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")
    if name.endswith(".conllu"):
        return "conllu"
    return "conll" if name.endswith(_CONLL_SUFFIXES) else "text"


def sentence_reader(
    path: str | os.PathLike, format: str | None = None, token_column: int | None = None
) -> Callable[[], Iterator[Sentence]]:
    """A function that reads the sentences of a file from its beginning.

    Args:
        path: `.gz` is unpacked.
        format: "text", a tokenised sentence a line, split where `str.split()` would, and no token
            for an empty line; "conll", a token a line in columns, with an empty line between
            sentences; "conllu", the same by the rules of Universal Dependencies (no comments, no
            `3-4`, no `5.1`); or None to go by the file's name.
        token_column: int >= 1. Column of the tokens; None for 1, or 2 of "conllu".

    Raises:
        ValueError: an unknown format, or a column where there are none. While reading: a line
            without that column, or one of "conllu" without a number in front; or see `read_lines`.
    """
    format = format or format_of(path)
    check_choice(format, "format", FORMATS)
    if format == "text":
        if token_column is not None:
            raise ValueError(f"`token_column` is for CoNLL columns; {os.fspath(path)} is text.")
        return lambda: _text_sentences(path)
    number = token_column or TOKEN_COLUMNS[format]
    return lambda: _conll_sentences(path, format, number)


def _text_sentences(path: str | os.PathLike) -> Iterator[Sentence]:
    for line in read_lines(path):
        tokens = line.split()
        yield Sentence(line.strip(), tokens, not tokens and line.rstrip("\r\n") != "")


def _conll_sentences(path: str | os.PathLike, format: str, token_column: int) -> Iterator[Sentence]:
    for rows in column_sentences(path, format):
        tokens = column(path, rows, token_column, "token")
        yield Sentence(" ".join(tokens), tokens)


class SentenceCount(NamedTuple):
    """The size of a text, and how many of its sentences are odd.

    sentences: all of them.
    tokens: without boundaries.
    longest: tokens of the longest.
    empty, blank: without a character, or with nothing but white space.
    invalid: with bytes that are no UTF-8.
    cut: with a token of which the end is not read.
    """

    sentences: int = 0
    tokens: int = 0
    longest: int = 0
    empty: int = 0
    blank: int = 0
    invalid: int = 0
    cut: int = 0

    def data_warnings(self, max_token_bytes: int | None) -> str:
        """The odd sentences and what becomes of them, in a line; nothing if there are none."""
        return data_warnings(
            (self.empty, "empty (no vectors)"),
            (self.blank, "of white space alone (no vectors)"),
            (self.invalid, "with invalid UTF-8 (read byte for byte; another encoding?)"),
            (self.cut, f"with a token of more than {max_token_bytes} bytes (the rest is not read)"),
        )


def count_sentences(
    sentences: Iterable[Sentence], max_token_bytes: int | None = None
) -> SentenceCount:
    """Counts sentences.

    Args:
        sentences: all of them; none is kept.
        max_token_bytes: int or None. What is read of a token; None for all of it.
    """
    number = tokens = longest = empty = blank = invalid = cut = 0
    for sentence in sentences:
        number += 1
        tokens += len(sentence.tokens)
        longest = max(longest, len(sentence.tokens))
        blank += sentence.is_blank
        empty += not sentence.tokens and not sentence.is_blank
        invalid += not is_utf_8(sentence.text)
        cut += max_token_bytes is not None and _has_longer(sentence, max_token_bytes)
    return SentenceCount(number, tokens, longest, empty, blank, invalid, cut)


def _has_longer(sentence: Sentence, num_bytes: int) -> bool:
    # A character takes a byte at least, and the text holds its longest token.
    if len(sentence.text) * 4 <= num_bytes:
        return False
    return any(
        len(token) > num_bytes or len(encode(token)) > num_bytes
        for token in sentence.tokens
        if len(token) * 4 > num_bytes
    )
