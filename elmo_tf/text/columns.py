"""CoNLL files ─► sentences: rows of fields."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

from elmo_tf.text.vocabulary import read_lines

# Token columns, counted from 1.
TOKEN_COLUMNS = {"conll": 1, "conllu": 2}
_DOCUMENT_MARKS = ("-DOCSTART-", "#begin document", "#end document")
# Ids of multiword tokens, `3-4`, and of empty nodes, `5.1`.
_NOT_A_WORD = re.compile(r"\d+[-.]\d+")


class Row(NamedTuple):
    """The fields of a token's line."""

    line: int  # in the file, from 1
    fields: list[str]


def column_sentences(
    path: str | os.PathLike, format: str, warns: bool = True
) -> Iterator[list[Row]]:
    """Yields the rows of each sentence, at least one.

    Lines are split at tabs, or at whitespace if they have no tab. An empty line or a document
    marker ends a sentence. In the format "conllu" (Universal Dependencies), so does a word number
    1, with a warning if `warns`, and comments, multiword tokens (`3-4`) and empty nodes (`5.1`) are
    skipped.

    Raises:
        ValueError: a line of "conllu" does not begin with a number, or see `read_lines`.
        OSError: the file cannot be read.
    """
    is_universal = format == "conllu"
    rows: list[Row] = []
    num_restarts = 0
    for number, line in enumerate(read_lines(path), start=1):
        if is_universal and line.startswith("#"):
            continue
        if not line.strip() or (not is_universal and line.startswith(_DOCUMENT_MARKS)):
            if rows:
                yield rows
            rows = []
            continue
        fields = fields_of(line)
        if is_universal and not fields[0].isdecimal():
            if not _NOT_A_WORD.fullmatch(fields[0]):
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: a line of CoNLL-U must begin with a word "
                    f"number: {_shown(fields)}. Specify the file's format (format, --input-format)."
                )
            continue
        if is_universal and rows and fields[0] == "1":
            num_restarts += 1
            yield rows
            rows = []
        rows.append(Row(number, fields))
    if rows:
        yield rows
    if num_restarts and warns:
        logging.warning(
            "%s: sentences without an empty line before them, where the word numbers restart at 1: "
            "%s.",
            *(os.fspath(path), f"{num_restarts:,}"),
        )


def fields_of(line: str) -> list[str]:
    """Splits a line at tabs, or at whitespace if it has no tab."""
    return [field.strip() for field in line.split("\t")] if "\t" in line else line.split()


def column(path: str | os.PathLike, rows: Sequence[Row], number: int, content: str) -> list[str]:
    """Returns column `number`, from 1, of a sentence; `content` is "token" or "tag", for messages.

    Raises:
        ValueError: the column is missing or empty in a row.
    """
    for row in rows:
        if len(row.fields) < number or not row.fields[number - 1]:
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: no column {number} with a {content}: "
                f"{_shown(row.fields)}. Specify another column ({content}_column, "
                f"--{content}-column) or the file's format."
            )
    return [row.fields[number - 1] for row in rows]


def last_column(path: str | os.PathLike, rows: Sequence[Row], first: Row) -> int:
    """Returns the number of the last column.

    Raises:
        ValueError: a row has more or fewer columns than the `first` row of the file.
    """
    width = len(first.fields)
    for row in rows:
        if len(row.fields) != width:
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: {len(row.fields)} columns, but line "
                f"{first.line} has {width}, so the last column differs: {_shown(row.fields)}. "
                "Specify the column (tag_column, --tag-column), unless the file is plain text."
            )
    return width


def _shown(fields: Sequence[str]) -> str:
    return repr(" ".join(fields)[:80])
