"""Shared by the readers of task files: errors that name a line, tables, labels; word vectors."""

import contextlib
import csv
import itertools
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from elmo_tf.logs import progress_over
from elmo_tf.tasks.tag_schemes import TokenError
from elmo_tf.text.counting import TextCount
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import Row, line_error

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl")


@contextlib.contextmanager
def naming_line(path: str | os.PathLike, line: int) -> Iterator[None]:
    """Adds the file and the line to the message of a `ValueError` that its block raises."""
    try:
        yield
    except ValueError as error:
        raise line_error(path, line, str(error)) from None


@contextlib.contextmanager
def naming_row(path: str | os.PathLike, rows: Sequence[Row]) -> Iterator[None]:
    """Adds the file and the line of a token to the message of a `TokenError`."""
    try:
        yield
    except TokenError as error:
        raise line_error(path, rows[error.position].line, str(error)) from None


def check_label(label: str, known: Collection[str] | None) -> None:
    """Checks that a label is not empty and, unless `known` is None, known."""
    if not label:
        raise ValueError("the label is empty.")
    if known is not None and label not in known:
        raise ValueError(f"unknown label {label!r}. Known labels: {', '.join(known)}.")


def not_empty(path: str | os.PathLike, examples: list, kind: str = "examples") -> list:
    """The examples of a file, or an error if there are none."""
    if not examples:
        raise ValueError(f"{os.fspath(path)} has no {kind}.")
    return examples


def is_table(path: str | os.PathLike) -> bool:
    """Whether the name of a file is one of `TABLE_SUFFIXES`."""
    return _table_name(path).endswith(TABLE_SUFFIXES)


def table_rows(
    path: str | os.PathLike, names: Sequence[str], has_header: bool = True
) -> Iterator[tuple[int, dict[str | int, str]]]:
    """Reads the rows of a table. Empty lines are skipped.

    Args:
        path: `.csv`, `.tsv` or `.jsonl`, see `json_rows`, perhaps with `.gz`.
        names: names of columns that the header must have.
        has_header: whether the first line has the names of the columns. Defaults to True.

    Yields:
        The line number from 1, and the cells by the numbers of their columns, from 1, and names.
    """
    if _table_name(path).endswith(".jsonl"):
        yield from json_rows(path, names)
        return
    rows = _rows(path)
    first, cells = next(rows, (1, []))
    width, header = len(cells), []
    if has_header:
        header = [cell.strip() for cell in cells]
        if missing := [name for name in names if name not in header]:
            columns = ", ".join(filter(None, header))[:200] or "none"
            message = f"there is no column {' or '.join(missing)}. Columns: {columns}."
            raise line_error(path, first, message)
    elif cells:
        yield first, dict(enumerate(cells, start=1))
    for line, cells in rows:
        if len(cells) != width:
            raise line_error(path, line, f"{len(cells)} columns, not {width} as in line {first}.")
        yield line, {**dict(enumerate(cells, start=1)), **dict(zip(header, cells, strict=False))}


def json_rows(
    path: str | os.PathLike, names: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads lines of JSON objects with the fields `names`, strings or integers, as strings.

    Yields:
        The line number from 1, and the object.
    """
    for number, line in enumerate(labeled_lines(path), start=1):
        if not line.strip():
            continue
        with naming_line(path, number):
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"not a JSON object: {row!r:.80}.")
            for name in names:
                if name not in row:
                    raise ValueError(f"`{name}` is missing. Fields: {', '.join(row)[:200]}.")
                if type(row[name]) not in (str, int):
                    raise ValueError(f"`{name}` must be a string. Received: {row[name]!r:.80}.")
                row[name] = str(row[name])
        yield number, row


def labeled_lines(path: str | os.PathLike) -> Iterator[str]:
    """The lines of a file, see `read_lines`. Refuses UTF-16, and reports invalid UTF-8."""
    count = TextCount()
    for number, line in enumerate(read_lines(path), start=1):
        if "\0" in line:
            raise line_error(path, number, "NUL bytes. Is the file UTF-16? It must be UTF-8.")
        count.add_line(line)
        yield line
    count.report()


def _table_name(path: str | os.PathLike) -> str:
    return os.fspath(path).lower().removesuffix(".gz")


def _rows(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    is_csv = _table_name(path).endswith(".csv")
    quotes = {} if is_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader(labeled_lines(path), strict=True, **quotes)
    line = 1
    limit = csv.field_size_limit(sys.maxsize)  # a field may be a long document
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1  # a field may hold line breaks
    except csv.Error as error:
        raise line_error(path, line, f"not valid CSV: {error}.") from None
    finally:
        csv.field_size_limit(limit)


def read_word_vectors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads word vectors: lines of a token and its numbers, separated by single spaces.

    Files of word2vec and fastText begin with a header of two numbers, the number of tokens and the
    dimension; files of GloVe have no header. A token may hold spaces, as a few tokens of GloVe do.
    Of a repeated token the first vector is kept.

    Args:
        path: UTF-8; `.gz` is decompressed.

    Returns:
        The vector of each token, float32 (feature,), in the order of the file.

    Raises:
        ValueError: the file is wrong. The message names the line.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    # Without the trailing space of word2vec.
    stripped = ((number, line.rstrip(" \r\n")) for number, line in enumerate(read_lines(path), 1))
    lines = (pair for pair in stripped if pair[1])
    first = next(lines, (1, ""))
    if header := re.fullmatch(r"(\d+) (\d+)", first[1]):
        expected, dim = map(int, header.groups())
    else:
        expected, dim = None, first[1].count(" ")
        lines = itertools.chain([first], lines)
    vectors: dict[str, np.ndarray] = {}
    count = 0
    for number, line in progress_over(lines, expected, "reading vectors", "tokens"):
        count += 1
        token, vector = _parsed(line, dim, f"{name}, line {number}")
        vectors.setdefault(token, vector)
    if not count or expected not in (None, count):
        raise ValueError(f"{name} has {count:,} vectors; its header says {expected:,}.")
    return vectors


def _parsed(line: str, dim: int, place: str) -> tuple[str, np.ndarray]:
    """The token and the vector of a line."""
    token, *values = line.rsplit(" ", dim)
    has_more = False
    if " " in token:  # if its last word is a number, the line has too many numbers
        with contextlib.suppress(ValueError):
            float(token.rpartition(" ")[2])
            has_more = True
    if not token or not dim or len(values) < dim or has_more:
        raise ValueError(f"{place}: not a token and {dim or 'its'} numbers: {line[:80]!r}.")
    try:
        with np.errstate(over="ignore"):  # an error below
            vector = np.array(values, np.float32)
    except ValueError as error:
        raise ValueError(f"{place}: {error}.") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is infinite or NaN.")
    return token, vector
