"""Text files or CoNLL files ─► sentences for embedding.

Empty lines are kept as empty sentences, unlike in a training corpus, where they are skipped.
"""

import collections
import os
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from elmo_tf.config_checks import check_choice
from elmo_tf.text.columns import TOKEN_COLUMNS, column, column_sentences
from elmo_tf.text.data_warnings import LINE_KINDS, data_warnings, suspicions
from elmo_tf.text.sentences import encode
from elmo_tf.text.tokenizers import Tokenizer, tokenized
from elmo_tf.text.vocabulary import TextSource, sentence_lines

FORMATS = ("text", "conll", "conllu")
_CONLL_SUFFIXES = (".conll", ".conllx", ".conll.txt", ".bio", ".iob", ".iob2", ".iobes", ".bioes")


class FileSentence(NamedTuple):
    """A sentence of a file."""

    text: str  # its line, stripped; for CoNLL, the tokens joined by spaces
    tokens: list[str]  # none of them empty
    is_blank: bool = False  # whether the line contains only whitespace
    # Of raw text: the line number, from 0, and the start and end of each token, in characters.
    line: int | None = None
    offsets: list[tuple[int, int]] | None = None


def format_of(path: str | os.PathLike) -> str:
    """The format by a file's name, one of `FORMATS`; "text" if the suffix is unknown."""
    name = os.path.basename(os.fspath(path)).lower().removesuffix(".gz")
    if name.endswith(".conllu"):
        return "conllu"
    return "conll" if name.endswith(_CONLL_SUFFIXES) else "text"


def sentence_reader(
    path: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> Callable[[], Iterator[FileSentence]]:
    """Returns a function that reads the sentences of a file from its beginning.

    Args:
        path: the file; `.gz` is decompressed.
        format: "text", a sentence per line of whitespace-separated tokens; "conll" or "conllu", see
            `column_sentences`; or None to use the file's name.
        token_column: int >= 1. Column of the tokens; None for 1, or 2 in "conllu".
        tokenizer: splits each line of a text into sentences and tokens. None splits at whitespace.

    Raises:
        ValueError: an unknown format, `token_column` for text, or `tokenizer` for columns. While
            reading: the column is missing in a line; or see `column_sentences`, `sentence_lines`.
    """
    format = format or format_of(path)
    check_choice(format, "format", FORMATS)
    if format == "text":
        if token_column is not None:
            raise ValueError(f"`token_column` requires a CoNLL file; {os.fspath(path)} is text.")
        if tokenizer is not None:
            return lambda: _tokenized_sentences(path, tokenizer)
        return lambda: text_sentences(path)
    if tokenizer is not None:
        raise ValueError(f"`tokenizer` requires text; the tokens of {os.fspath(path)} are given.")
    token_column = token_column or TOKEN_COLUMNS[format]
    warns = iter([True])  # once, even if the file is read repeatedly
    return lambda: _conll_sentences(path, format, token_column, next(warns, False))


def text_sentences(source: TextSource, first: int = 0) -> Iterator[FileSentence]:
    """Yields a sentence per line; see `sentence_lines`. `first` numbers the first line, from 0."""
    for line in sentence_lines(source, first + 1):
        tokens = line.split()
        yield FileSentence(line.strip(), tokens, not tokens and line.rstrip("\r\n") != "")


def _tokenized_sentences(path: str | os.PathLike, tokenizer: Tokenizer) -> Iterator[FileSentence]:
    for index, line in enumerate(sentence_lines(path)):
        line = line.rstrip("\r\n")
        for tokens in tokenized(line, tokenizer):
            text = line[tokens[0].start : tokens[-1].end]
            offsets = [(token.start, token.end) for token in tokens]
            yield FileSentence(text, [token.text for token in tokens], False, index, offsets)


def _conll_sentences(
    path: str | os.PathLike, format: str, token_column: int, warns: bool
) -> Iterator[FileSentence]:
    for rows in column_sentences(path, format, warns):
        tokens = column(path, rows, token_column, "token")
        yield FileSentence(" ".join(tokens), tokens)


class TokenLimit(NamedTuple):
    """The length to which a model truncates tokens, in "bytes" (of UTF-8) or "characters"."""

    length: int
    unit: str

    def __str__(self) -> str:
        return f"{self.length} {self.unit}"

    def is_exceeded(self, token: str) -> bool:
        """Whether a token is longer."""
        return len(encode(token) if self.unit == "bytes" else token) > self.length


class SentenceCount(NamedTuple):
    """The size of a text, and its numbers of suspicious sentences, see `LINE_KINDS`."""

    sentences: int = 0
    tokens: int = 0  # without boundaries
    longest: int = 0  # tokens of the longest sentence
    empty: int = 0  # sentences without characters
    blank: int = 0  # sentences of whitespace only
    invalid: int = 0
    cut: int = 0  # sentences with a token that is truncated
    nul: int = 0
    boundary: int = 0
    space: int = 0
    unknown: int = 0  # sentences with a token that is not in the vocabulary of the model

    def data_warnings(self, limit: TokenLimit | None) -> str:
        """The suspicious sentences as a line of text; empty if there are none."""
        kinds = {
            "empty": "empty (no vectors)",
            "blank": "of whitespace only (no vectors)",
            **LINE_KINDS,
            "cut": f"with a token of more than {limit} (truncated)",
            "unknown": "with a token that is not in the vocabulary (read as <UNK>)",
        }
        return data_warnings(self._asdict(), kinds)


def count_sentences(
    sentences: Iterable[FileSentence],
    limit: TokenLimit | None = None,
    vocabulary: Container[str] | None = None,
) -> SentenceCount:
    """Counts sentences, without keeping them.

    `limit` is the length to which tokens are truncated, `vocabulary` that of a model of tokens.
    """
    counts: collections.Counter[str] = collections.Counter()
    longest = 0
    for sentence in sentences:
        tokens = sentence.tokens
        counts["sentences"] += 1
        counts["tokens"] += len(tokens)
        longest = max(longest, len(tokens))
        if not tokens:
            counts["blank" if sentence.is_blank else "empty"] += 1
        for kind in suspicions(sentence.text, tokens):
            counts[kind] += 1
        if limit is not None:
            # Fast: a character takes at most 4 bytes.
            counts["cut"] += any(len(t) * 4 > limit.length and limit.is_exceeded(t) for t in tokens)
        counts["unknown"] += vocabulary is not None and any(t not in vocabulary for t in tokens)
    return SentenceCount(longest=longest, **counts)
