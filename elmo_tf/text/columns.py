"""Files of CoNLL columns ─► the rows of each sentence, cut into fields."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elmo_tf.text.vocabulary import read_lines

# Columns of the tokens, counted from 1.
TOKEN_COLUMNS = {"conll": 1, "conllu": 2}
_DOCUMENT_MARKS = ("-DOCSTART-", "#begin document", "#end document")
# Several words as one, `3-4`, and words that the text lacks, `5.1`.
_NO_WORD = re.compile(r"\d+[-.]\d+")


class Row(NamedTuple):
    """A token's line, cut into fields. `line` is its number in the file, from 1."""

    line: int
    fields: list[str]


def column_sentences(path: str | os.PathLike, format: str) -> Iterator[list[Row]]:
    """Gives the rows of each sentence.

    Lines are cut at tabs, or where they have none at white space; a line without either ends the
    sentence, and so does the mark of a document.

    Args:
        path: `.gz` is unpacked.
        format: "conll", or "conllu" by the rules of Universal Dependencies: comments are passed
            over, and so are `3-4` and `5.1`, which are no words of their own.

    Yields:
        At least one row.

    Raises:
        ValueError: a line of "conllu" does not begin with a number, or see `read_lines`.
        OSError: the file cannot be read.
    """
    is_universal = format == "conllu"
    rows: list[Row] = []
    for number, line in enumerate(read_lines(path), start=1):
        if is_universal and line.startswith("#"):
            continue
        if not line.strip() or (not is_universal and line.startswith(_DOCUMENT_MARKS)):
            if rows:
                yield rows
            rows = []
            continue
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        if is_universal and not fields[0].isdecimal():
            _check_is_no_word(path, number, fields)
            continue
        rows.append(Row(number, fields))
    if rows:
        yield rows


def column(path: str | os.PathLike, rows: Sequence[Row], number: int, content: str) -> list[str]:
    """One column of a sentence.

    Args:
        path: the file, for errors.
        rows: of the sentence.
        number: int >= 1. Of the column.
        content: what stands there, for errors: "token" or "tag".

    Raises:
        ValueError: a row that ends before the column, or has nothing in it.
    """
    for row in rows:
        if len(row.fields) < number or not row.fields[number - 1]:
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: no column {number}, in which the {content} "
                f"should stand: {_shown(row.fields)}. Name another column ({content}_column, "
                f"--{content}-column), or the file's format."
            )
    return [row.fields[number - 1] for row in rows]


def last_column(path: str | os.PathLike, rows: Sequence[Row], first: Row) -> int:
    """The number of the last column of a sentence, which must be the same in the whole file.

    Args:
        path: the file, for errors.
        rows: of the sentence.
        first: row of the file.

    Raises:
        ValueError: a row has more or fewer columns than the first.
    """
    width = len(first.fields)
    for row in rows:
        if len(row.fields) != width:
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: {len(row.fields)} columns, but line "
                f"{first.line} has {width}, so that none is the last of all: {_shown(row.fields)}. "
                "Name the column (tag_column, --tag-column), if this is no plain text."
            )
    return width


def _check_is_no_word(path: str | os.PathLike, number: int, fields: Sequence[str]) -> None:
    if not _NO_WORD.fullmatch(fields[0]):
        raise ValueError(
            f"{os.fspath(path)}, line {number}: a line of CoNLL-U begins with a word's number: "
            f"{_shown(fields)}. Name the file's format (format, --input-format)."
        )


def _shown(fields: Sequence[str]) -> str:
    return repr(" ".join(fields)[:80])
