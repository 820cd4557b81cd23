"""Text, CoNLL or FASTA files ─► sentences.

An empty line of text is an empty sentence, unlike in a training corpus. In CoNLL it ends a
sentence.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from elmo_tf.text.reading import TextSource, fasta_records, format_of, read_lines, sentence_lines
from elmo_tf.text.tokenizers import Tokenizer, tokenized

# Token columns, counted from 1.
TOKEN_COLUMNS = {"conll": 1, "conllu": 2}
FORMATS = ("text", *TOKEN_COLUMNS, "fasta")


class FileSentence(NamedTuple):
    """A sentence of a file."""

    text: str  # its line, stripped; for CoNLL, the tokens joined by spaces
    tokens: list[str]  # none of them empty
    # Of raw text: the line number, from 0, and the start and end of each token, in characters.
    line: int | None = None
    offsets: list[tuple[int, int]] | None = None
    identifier: str | None = None  # of FASTA, unique in the file


def sentence_reader(
    path: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    tokenizer: Tokenizer | None = None,
    on_invalid: str = "error",
) -> Callable[[], Iterator[FileSentence]]:
    """Returns a function that reads the sentences of a file from its beginning.

    Args:
        path: the file; `.gz` is decompressed.
        format: "text", a sentence per line of whitespace-separated tokens; "conll" or "conllu", see
            `column_sentences`; "fasta", see `fasta_records`; or None to use the file's name.
        token_column: int >= 1. Column of the tokens; None for 1, or 2 in "conllu".
        tokenizer: splits each line of a text into sentences and tokens. None splits at whitespace.
        on_invalid: "error" or "skip", for invalid records of FASTA.

    Raises:
        ValueError: an argument has a wrong value or is not for the format; while reading, see the
            functions of each format.
    """
    format = format or format_of(path)
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")
    if on_invalid not in ("error", "skip"):
        raise ValueError(f"`on_invalid` must be error or skip. Received: {on_invalid!r}")
    if token_column is not None and token_column < 1:
        raise ValueError(f"`token_column` must be at least 1. Received: {token_column}")
    if format not in TOKEN_COLUMNS and token_column is not None:
        raise ValueError(f"`token_column` requires a CoNLL file; {os.fspath(path)} is {format}.")
    if format != "text" and tokenizer is not None:
        raise ValueError(f"`tokenizer` requires text; the tokens of {os.fspath(path)} are given.")
    if tokenizer is not None:
        return lambda: _tokenized_sentences(path, tokenizer)
    if format == "text":
        return lambda: text_sentences(path)
    if format == "fasta":
        return lambda: (
            FileSentence(" ".join(residues), list(residues), identifier=identifier)
            for identifier, residues in fasta_records(
                read_lines(path), os.fspath(path), on_invalid, has_identifiers=True
            )
        )
    number = token_column or TOKEN_COLUMNS[format]
    return lambda: (
        FileSentence(" ".join(tokens), tokens)
        for rows in column_sentences(path, format)
        for tokens in [column(path, rows, number, "token")]
    )


def text_sentences(source: TextSource, first: int = 0) -> Iterator[FileSentence]:
    """Yields a sentence per line; see `sentence_lines`. `first` numbers the first line, from 0."""
    for line in sentence_lines(source, first + 1, "text"):
        yield FileSentence(line.strip(), line.split())


def _tokenized_sentences(path: str | os.PathLike, tokenizer: Tokenizer) -> Iterator[FileSentence]:
    for index, line in enumerate(sentence_lines(path, format="text")):
        line = line.rstrip("\r\n")
        for tokens in tokenized(line, tokenizer):
            text = line[tokens[0].start : tokens[-1].end]
            offsets = [(token.start, token.end) for token in tokens]
            yield FileSentence(text, [token.text for token in tokens], index, offsets)


_DOCUMENT_MARKS = ("-DOCSTART-", "#begin document", "#end document")
# Ids of multiword tokens, `3-4`, and of empty nodes, `5.1`.
_NOT_A_WORD = re.compile(r"\d+[-.]\d+")


class Row(NamedTuple):
    """The fields of a token's line."""

    line: int  # in the file, from 1
    fields: list[str]


def column_sentences(
    path: str | os.PathLike,
    format: str,
    read: Callable[[str | os.PathLike], Iterator[str]] = read_lines,
) -> Iterator[list[Row]]:
    """Yields the rows of each sentence, at least one.

    Lines, which `read` returns, are split at tabs, or at whitespace if they have no tab. An empty
    line or a document marker ends a sentence. In the format "conllu" (Universal Dependencies),
    comments, multiword tokens (`3-4`) and empty nodes (`5.1`) are skipped.

    Raises:
        ValueError: a line of "conllu" does not begin with a number, or see `read_lines`.
        OSError: the file cannot be read.
    """
    is_universal = format == "conllu"
    rows: list[Row] = []
    for number, line in enumerate(itertools.chain(read(path), [""]), start=1):
        if is_universal and line.startswith("#"):
            continue
        if not line.strip() or (not is_universal and line.startswith(_DOCUMENT_MARKS)):
            if rows:
                yield rows
            rows = []
            continue
        fields = fields_of(line)
        if not is_universal or fields[0].isdecimal():
            rows.append(Row(number, fields))
        elif not _NOT_A_WORD.fullmatch(fields[0]):
            message = "a line of CoNLL-U must begin with a word number"
            remedy = "Specify --input-format (format)."
            raise line_error(path, number, f"{message}: {line.strip()!r:.80}. {remedy}")


def fields_of(line: str) -> list[str]:
    """Splits a line at tabs, or at whitespace if it has no tab."""
    return [field.strip() for field in line.split("\t")] if "\t" in line else line.split()


def column(path: str | os.PathLike, rows: Sequence[Row], number: int, content: str) -> list[str]:
    """Returns column `number`, from 1, of a sentence; `ValueError` if it is missing in a row.

    `content` is "token" or "tag", for the message.
    """
    for row in rows:
        if len(row.fields) < number or not row.fields[number - 1]:
            message = f"no column {number} with a {content}: {' '.join(row.fields)!r:.80}."
            remedy = f"Specify --{content}-column ({content}_column), or the file's format."
            raise line_error(path, row.line, f"{message} {remedy}")
    return [row.fields[number - 1] for row in rows]


def line_error(path: str | os.PathLike, line: int, message: str) -> ValueError:
    """An error in a line of a file."""
    return ValueError(f"{os.fspath(path)}, line {line}: {message}")
